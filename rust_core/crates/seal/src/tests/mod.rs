mod blob;
mod cache;
mod keyring;
mod keyring_format;
mod kms;
mod vectors;

use crate::{DataKey, DataKeyId, Domain, EncryptionContext, FreshId, Secret, StoreId};

const STORE: StoreId = StoreId([0x11; 16]);

fn fresh(byte: u8) -> FreshId {
    FreshId::draw(&mut |bytes| {
        bytes.fill(byte);
        Ok(())
    })
    .unwrap()
}

/// Random bytes that differ in every call.
fn counting() -> impl FnMut(&mut [u8]) -> crate::Result<()> {
    let mut count = 0u8;
    move |bytes| {
        count += 1;
        bytes.fill(count);
        Ok(())
    }
}

fn data_key(byte: u8) -> DataKey {
    DataKey::new(DataKeyId([byte; 16]), STORE, Secret::new(&[byte; 32]))
}

fn domain<'a>(owner: &'a str, context: &'a EncryptionContext) -> Domain<'a> {
    Domain { store: STORE, owner: owner.as_bytes(), context }
}

fn context(pairs: &[(&str, &str)]) -> EncryptionContext {
    EncryptionContext::new(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2));
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
