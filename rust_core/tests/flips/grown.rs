//! Objects that were appended to, and objects that were moved together.

use bytes::Bytes;
use orcas_checksum::Md5Hasher;
use orcas_decide::{Intent, MovePrefix, ObjectAppend, Outcome, PutObject};
use orcas_record::Bucket;

use super::{Builder, name_of};

impl Builder {
    pub(super) fn grow(&mut self, a: &Bucket, b: &Bucket) {
        self.put(b, "grown", self.noise(900, 420));
        for (n, length) in [20, 300, 1_500].into_iter().enumerate() {
            self.append(b, "grown", self.noise(length, 421 + n as u64));
        }
        // Inline in the beginning, and as a whole.
        self.put(b, "grown-little", self.noise(30, 430));
        self.append(b, "grown-little", self.noise(40, 431));
        for (n, length) in [40, 900, 25_000].into_iter().enumerate() {
            self.put(a, &format!("from/{n}"), self.noise(length, 440 + n as u64));
        }
        self.move_prefix(a, "from/", "moved/");
    }

    pub(super) fn append(&mut self, bucket: &Bucket, key: &'static str, bytes: Vec<u8>) {
        let name = name_of(bucket, key);
        let whole = [&self.objects[&name][..], &bytes].concat();
        let put = PutObject {
            bucket: bucket.id,
            key: key.into(),
            modified_ms: None,
            precondition: Default::default(),
            size: bytes.len() as u64,
            md5: Md5Hasher::digest(&bytes),
            sha256: None,
            checksum: None,
            headers: Default::default(),
            attributes: self.attributes(),
            body: match self.size.sealed {
                true => self.body(bucket, &bytes),
                false => self.handle().content().appended_body(bucket, Bytes::from(bytes)),
            },
        };
        let offset = self.objects[&name].len() as u64;
        self.run(Intent::AppendObject(Box::new(ObjectAppend { put, offset, user_metadata: false, declared: None })));
        self.insert(name, whole);
    }

    fn move_prefix(&mut self, bucket: &Bucket, from: &'static str, to: &'static str) {
        let request = MovePrefix {
            from_bucket: bucket.id,
            from_prefix: from.into(),
            bucket: bucket.id,
            prefix: to.into(),
            overwrite: false,
            limit: 100,
        };
        let intent = self.stepper.as_ref().unwrap().move_intent(&request).unwrap();
        let Outcome::Moved { objects, .. } = self.run(intent) else { panic!("not moved") };
        let prefix = name_of(bucket, from);
        let names: Vec<String> = self.objects.keys().filter(|name| name.starts_with(&prefix)).cloned().collect();
        assert_eq!(objects, names.len() as u64);
        for name in names {
            let bytes = self.remove(&name).unwrap();
            self.insert(name_of(bucket, &format!("{to}{}", &name[prefix.len()..])), bytes);
        }
    }
}
