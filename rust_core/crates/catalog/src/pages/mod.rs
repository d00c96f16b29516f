//! Pages of what there is: of objects and versions, in one layer (`objects`, `versions`) and in several
//! (`layered_objects`, `layered_versions`), and of uploads and their parts (`uploads`).

pub mod layered_objects;
pub mod layered_versions;
pub mod objects;
pub mod uploads;
pub mod versions;
