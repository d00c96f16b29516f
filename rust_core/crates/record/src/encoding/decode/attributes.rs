//! Headers and attributes of versions and uploads.

use std::sync::Arc;

use super::Input;
use crate::*;
use orcas_base::error::{Error, Result};

impl Input {
    pub(super) fn headers(&mut self) -> Result<ObjectHeaders> {
        let mask = self.u8()?;
        let mut single = |bit: u8| if mask >> bit & 1 == 1 { self.bytes().map(Some) } else { Ok(None) };
        let mut headers = ObjectHeaders {
            content_type: single(0)?,
            content_encoding: single(1)?,
            content_disposition: single(2)?,
            content_language: single(3)?,
            cache_control: single(4)?,
            expires: single(5)?,
            website_redirect: single(6)?,
            storage_class: single(7)?,
            user: Vec::new(),
            sealed: None,
        };
        for _ in 0..self.u16()? {
            headers.user.push((self.bytes()?, self.bytes()?));
        }
        Ok(headers)
    }

    /// Headers, and the attributes that say whether they are sealed.
    pub(super) fn headers_and_attributes(&mut self) -> Result<(ObjectHeaders, Attributes)> {
        let headers = self.headers()?;
        let (attributes, sealed) = self.attributes()?;
        if sealed.is_some() && headers.has_unsealed() {
            return Err(Error::Record { reason: "headers are sealed and are not" });
        }
        Ok((ObjectHeaders { sealed, ..headers }, attributes))
    }

    pub(super) fn attributes(&mut self) -> Result<(Attributes, Option<Box<SealedHeaders>>)> {
        let present = self.u8()?;
        let legal_hold = match present >> 2 & 3 {
            0 => None,
            1 => Some(false),
            3 => Some(true),
            _ => return Err(Error::Record { reason: "unknown attributes" }),
        };
        let tags = if present & 1 == 0 { Vec::new() } else { self.tags()? };
        let retention = if present & 2 == 0 { None } else { Some(self.retention()?) };
        let annotations = if present & 16 == 0 { Annotations::default() } else { self.annotations()? };
        let encryption = if present & 32 == 0 { None } else { Some(self.encryption()?) };
        let sealed = match (present & 64, &encryption) {
            (0, _) => None,
            (_, Some(_)) => Some(Box::new(self.sealed_headers()?)),
            (_, None) => return Err(Error::Record { reason: "headers are sealed without encryption" }),
        };
        let acl = if present & 128 == 0 { None } else { Some(self.bytes()?) };
        Ok((Attributes { tags, retention, legal_hold, annotations, encryption, acl }, sealed))
    }

    fn sealed_headers(&mut self) -> Result<SealedHeaders> {
        let seal = Seal { data_key: self.array()?, id: self.array()?, algorithm: self.u8()? };
        Ok(SealedHeaders { seal, bytes: self.bytes()? })
    }

    fn encryption(&mut self) -> Result<Encryption> {
        match self.u8()? {
            1 => Ok(Encryption::Managed),
            2 => {
                let (id, context, bucket_key) = (self.array()?, self.bytes()?, self.flag()?);
                Ok(Encryption::Named(Arc::new(NamedKey { id, context, bucket_key })))
            }
            3 => Ok(Encryption::Customer(Arc::new(KeyCheck { salt: self.array()?, mac: self.array()? }))),
            _ => Err(Error::Record { reason: "unknown kind of encryption" }),
        }
    }

    fn annotations(&mut self) -> Result<Annotations> {
        let count = usize::from(self.u16()?);
        // The smallest annotation has 31 bytes.
        if count > self.rest.len() / 31 {
            return Err(Error::Record { reason: "more annotations than the payload can hold" });
        }
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            let name = self.bytes()?;
            let (modified_ms, md5, checksum) = (self.u64()?, self.array()?, self.checksum()?);
            let text = self.extent()?;
            if matches!(text, Extent::Segment { .. }) {
                return Err(Error::Record { reason: "an annotation names a segment" });
            }
            list.push(Annotation { name, modified_ms, md5, checksum, text });
        }
        let annotations = Annotations::from_sorted(list).filter(|annotations| !annotations.is_empty());
        annotations.ok_or(Error::Record { reason: "annotations are not in order, or too many or none" })
    }

    fn tags(&mut self) -> Result<Vec<(Bytes, Bytes)>> {
        match self.u16()? {
            0 => Err(Error::Record { reason: "an empty list of tags" }),
            count => (0..count).map(|_| Ok((self.bytes()?, self.bytes()?))).collect(),
        }
    }

    fn retention(&mut self) -> Result<Retention> {
        Ok(Retention { mode: self.mode()?, until_ms: self.u64()? })
    }

    pub(super) fn mode(&mut self) -> Result<RetentionMode> {
        match self.u8()? {
            0 => Ok(RetentionMode::Governance),
            1 => Ok(RetentionMode::Compliance),
            _ => Err(Error::Record { reason: "unknown retention mode" }),
        }
    }
}
