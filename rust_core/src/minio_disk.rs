//! The drives of a stopped MinIO: objects by the page, and their bytes piece by piece.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use orcas_minio_disk::{Content, Drives, Found, Kind, MasterKey, Taken, Walk, documents, uuid};

#[pyclass(frozen, module = "orcas._core")]
pub struct MinioDrives {
    drives: Arc<Drives>,
}

#[pymethods]
impl MinioDrives {
    #[new]
    fn new(py: Python<'_>, directories: Vec<PathBuf>, key: Option<&str>) -> PyResult<Self> {
        let key = key.map(|key| MasterKey::parse(key).ok_or_else(|| PyValueError::new_err("the key is not valid")));
        let key = key.transpose()?;
        let drives = py.detach(|| Drives::open(&directories, key)).map_err(PyValueError::new_err)?;
        Ok(Self { drives: Arc::new(drives) })
    }

    #[getter]
    fn missing(&self) -> (usize, usize) {
        self.drives.missing()
    }

    fn buckets(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let names = py.detach(|| self.drives.buckets()).map_err(PyValueError::new_err)?;
        Ok(names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    fn documents<'py>(&self, py: Python<'py>, bucket: &str) -> PyResult<BTreeMap<String, Bound<'py, PyBytes>>> {
        let found = py.detach(|| documents(&self.drives, bucket.as_bytes())).map_err(PyValueError::new_err)?;
        Ok(found.into_iter().map(|(name, document)| (name, PyBytes::new(py, &document))).collect())
    }

    fn unsealed<'py>(&self, py: Python<'py>, path: &str, content: &[u8]) -> Option<Bound<'py, PyBytes>> {
        let opened = self.drives.key.as_ref()?.file(path, content)?;
        Some(PyBytes::new(py, &opened))
    }

    fn walk(&self, bucket: &str, prefix: &[u8]) -> MinioWalk {
        let walk = Walk::new(Arc::clone(&self.drives), bucket.as_bytes(), prefix);
        MinioWalk { drives: Arc::clone(&self.drives), walk: Mutex::new(walk) }
    }
}

#[pyclass(frozen, module = "orcas._core")]
pub struct MinioWalk {
    drives: Arc<Drives>,
    walk: Mutex<Walk>,
}

#[pymethods]
impl MinioWalk {
    /// Empty at the end.
    fn page(&self, py: Python<'_>, objects: usize) -> PyResult<Vec<MinioObject>> {
        let found: Vec<Found> = py.detach(|| self.walk.lock().by_ref().take(objects).collect());
        found.into_iter().map(|found| MinioObject::new(py, &self.drives, found)).collect()
    }
}

#[pyclass(frozen, module = "orcas._core")]
pub struct MinioObject {
    drives: Arc<Drives>,
    found: Arc<Found>,
    versions: Vec<Py<MinioVersion>>,
}

impl MinioObject {
    fn new(py: Python<'_>, drives: &Arc<Drives>, found: Found) -> PyResult<Self> {
        let found = Arc::new(found);
        let version =
            |number| Py::new(py, MinioVersion { drives: Arc::clone(drives), object: Arc::clone(&found), number });
        let versions = (0..found.versions.len()).map(version).collect::<PyResult<_>>()?;
        Ok(Self { drives: Arc::clone(drives), found, versions })
    }
}

#[pymethods]
impl MinioObject {
    #[getter]
    fn key(&self) -> &[u8] {
        &self.found.key
    }

    #[getter]
    fn interrupted(&self) -> u64 {
        self.found.interrupted
    }

    #[getter]
    fn problem(&self) -> &str {
        &self.found.problem
    }

    #[getter]
    fn versions(&self, py: Python<'_>) -> Vec<Py<MinioVersion>> {
        self.versions.iter().map(|version| version.clone_ref(py)).collect()
    }

    fn remove(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.drives.remove(&self.found)).map_err(PyValueError::new_err)
    }
}

#[pyclass(frozen, module = "orcas._core")]
pub struct MinioVersion {
    drives: Arc<Drives>,
    object: Arc<Found>,
    number: usize,
}

impl MinioVersion {
    fn taken(&self) -> &Taken {
        &self.object.versions[self.number]
    }
}

#[pymethods]
impl MinioVersion {
    #[getter]
    fn id(&self) -> String {
        if self.taken().shape.id == [0; 16] { "null".to_owned() } else { uuid(&self.taken().shape.id) }
    }

    #[getter]
    fn is_marker(&self) -> bool {
        self.taken().shape.kind == Kind::Marker
    }

    #[getter]
    fn is_sealed(&self) -> bool {
        self.taken().secret.is_some()
    }

    #[getter]
    fn problem(&self) -> &str {
        &self.taken().problem
    }

    /// The sizes of its parts.
    #[getter]
    fn parts(&self) -> Vec<u64> {
        self.taken().shape.parts.iter().map(|part| part.actual).collect()
    }

    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in &self.taken().metadata {
            dict.set_item(String::from_utf8_lossy(name).to_lowercase(), PyBytes::new(py, value))?;
        }
        Ok(dict)
    }

    fn content(&self, py: Python<'_>, part: usize) -> PyResult<MinioContent> {
        let Found { set, path, .. } = &*self.object;
        let content = py.detach(|| Content::open(&self.drives, *set, path, self.taken(), part));
        let content = content.ok_or_else(|| PyIndexError::new_err("there is no such part"))?;
        Ok(MinioContent { content: Mutex::new(content) })
    }
}

#[pyclass(frozen, module = "orcas._core")]
pub struct MinioContent {
    content: Mutex<Content>,
}

#[pymethods]
impl MinioContent {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let piece = py.detach(|| self.content.lock().next_piece()).map_err(PyValueError::new_err)?;
        Ok((!piece.is_empty()).then(|| PyBytes::new(py, &piece)))
    }
}
