//! Content of objects on its way in and out: bodies (`body`), copies (`copy`, `annotations_again`), reads (`reads`); where
//! it is stored (`stored`); and how it is sealed and opened (`encrypting`, `sealing`, `sealed_headers`, `seal_ids`).

pub(crate) mod annotations_again;
pub(crate) mod body;
pub(crate) mod copy;
pub(crate) mod encrypting;
pub(crate) mod reads;
pub(crate) mod seal_ids;
pub(crate) mod sealed_headers;
pub(crate) mod sealing;
pub(crate) mod stored;
