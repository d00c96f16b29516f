//! What a check sees of sealed content and headers: the seals (`seals`), the authentication tags of content (`tags`)
//! and those of headers (`headers`).

pub(crate) mod headers;
pub(crate) mod seals;
pub(crate) mod tags;
