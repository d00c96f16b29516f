//! A log of objects: the calls of the protocol, made to a bucket.

mod ahead;
mod bucket;
mod http;
mod url;

use bytes::Bytes;
use orcas_shared_log::Position;
use orcas_shared_log::objects::{Call, Reply, Tag, Tagged};

use crate::error::{Error, Fault};
use crate::format::{decode_entry, decode_head, encode_entry, encode_head};
use crate::options::Options;
use bucket::{Bucket, Condition};

pub(crate) use ahead::Reader;
pub(crate) use bucket::LARGEST_BATCH;

const HEAD: &str = "head";
const FOLDER: &str = "log/";
const DIGITS: usize = 20;

pub(crate) struct Objects {
    bucket: Bucket,
}

impl Objects {
    /// Looks for the head, so that a wrong address and wrong keys are noticed.
    pub(crate) async fn open(url: &str, options: &Options) -> Result<Self, Error> {
        let objects = Self { bucket: Bucket::new(url::parse(url)?, options)? };
        objects.call(&Call::ReadHead).await.map_err(Fault::at_the_start)?;
        Ok(objects)
    }

    pub(crate) async fn call(&self, call: &Call<Bytes>) -> Result<Reply<Bytes>, Fault> {
        Ok(match call {
            Call::ReadHead => {
                let found = self.bucket.get(HEAD).await?;
                Reply::Head(found.map(|(bytes, tag)| read_head(&bytes, tag)).transpose()?)
            }
            Call::SwapHead { seen, head } => {
                let condition = seen.as_ref().map_or(Condition::Absent, |Tag(tag)| Condition::Tag(tag));
                match self.bucket.put(HEAD, condition, encode_head(head).into()).await? {
                    Some(tag) => Reply::Swapped(Tag(tag)),
                    None => Reply::Refused,
                }
            }
            Call::ReadEntry(position) => {
                let found = self.bucket.get(&name(*position)).await?;
                Reply::Entry(found.map(|(bytes, _)| read_entry(&bytes, *position)).transpose()?)
            }
            Call::CreateEntry { position, entry } => {
                match self.bucket.put(&name(*position), Condition::Absent, encode_entry(entry)).await? {
                    Some(_) => Reply::Created,
                    None => Reply::Refused,
                }
            }
        })
    }

    /// Positions from this one on at which entries are: some, and none if there are no more.
    pub(crate) async fn list(&self, from: Position) -> Result<Vec<Position>, Fault> {
        let after = from.checked_sub(1).map_or(FOLDER.to_owned(), name);
        let names = self.bucket.list(FOLDER, &after).await?;
        Ok(names.iter().filter(|name| name.len() == DIGITS).filter_map(|name| name.parse().ok()).collect())
    }

    pub(crate) async fn remove(&self, position: Position) -> Result<(), Fault> {
        self.bucket.delete(&name(position)).await
    }
}

fn name(position: Position) -> String {
    format!("{FOLDER}{position:0DIGITS$}")
}

fn read_head(bytes: &[u8], tag: String) -> Result<Tagged, Error> {
    let head = decode_head(bytes).ok_or_else(|| Error::Foreign("the object `head`".to_owned()))?;
    Ok(Tagged { head, tag: Tag(tag) })
}

fn read_entry(bytes: &Bytes, position: Position) -> Result<orcas_shared_log::Entry<Bytes>, Error> {
    decode_entry(bytes).ok_or_else(|| Error::Foreign(format!("the object `{}`", name(position))))
}
