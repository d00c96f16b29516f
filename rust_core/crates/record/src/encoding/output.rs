//! The primitives of the encoding of records. Each call names the field as in `docs/format.md`.
//!
//! All bytes of a payload are written here. The test of the document traces the fields. Normally there is no trace, and
//! the names cost nothing because the calls are inlined.

/// The type of a field, as in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldType {
    U8,
    U16,
    U32,
    U64,
    Flag,
    Code,
    /// `byte[N]`
    Array(usize),
    /// `byte[N]?`
    Optional(usize),
    /// `byte[u16]`
    Bytes,
    /// `byte[u32]`
    LongBytes,
    /// `byte[*]`
    Rest,
    Structure(&'static str),
    /// `T[u16]`
    List16(&'static str),
    /// `T[u32]`
    List32(&'static str),
}

/// Called for every field, before its bytes are written.
pub(crate) trait Trace {
    /// `value` is 0 unless the field is an integer, flag or code.
    fn field(&mut self, _name: &'static str, _type: FieldType, _value: u64) {}

    /// The fields of a structure follow.
    fn begin(&mut self, _structure: &'static str) {}

    fn end(&mut self) {}
}

impl Trace for () {}

/// Appends fields to a payload.
pub(crate) struct Output<'a, T> {
    bytes: &'a mut Vec<u8>,
    trace: T,
}

impl<'a, T: Trace> Output<'a, T> {
    pub fn new(bytes: &'a mut Vec<u8>, trace: T) -> Self {
        Self { bytes, trace }
    }

    pub fn u8(&mut self, name: &'static str, value: u8) {
        self.trace.field(name, FieldType::U8, u64::from(value));
        self.bytes.push(value);
    }

    pub fn u16(&mut self, name: &'static str, value: u16) {
        self.trace.field(name, FieldType::U16, u64::from(value));
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u32(&mut self, name: &'static str, value: u32) {
        self.trace.field(name, FieldType::U32, u64::from(value));
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u64(&mut self, name: &'static str, value: u64) {
        self.trace.field(name, FieldType::U64, value);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn flag(&mut self, name: &'static str, value: bool) {
        self.trace.field(name, FieldType::Flag, u64::from(value));
        self.bytes.push(u8::from(value));
    }

    pub fn code(&mut self, name: &'static str, value: u8) {
        self.trace.field(name, FieldType::Code, u64::from(value));
        self.bytes.push(value);
    }

    /// A fixed number of bytes.
    pub fn array(&mut self, name: &'static str, bytes: &[u8]) {
        self.trace.field(name, FieldType::Array(bytes.len()), 0);
        self.bytes.extend_from_slice(bytes);
    }

    pub fn optional<const N: usize>(&mut self, name: &'static str, bytes: Option<&[u8; N]>) {
        self.trace.field(name, FieldType::Optional(N), 0);
        self.bytes.push(u8::from(bytes.is_some()));
        self.bytes.extend_from_slice(bytes.map_or(&[], |bytes| &bytes[..]));
    }

    /// The limits of S3 keep these byte strings far below 64 KiB (keys 1 KiB, headers 8 KiB).
    pub fn bytes(&mut self, name: &'static str, bytes: &[u8]) {
        debug_assert!(bytes.len() <= usize::from(u16::MAX));
        self.trace.field(name, FieldType::Bytes, 0);
        self.bytes.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    pub fn long_bytes(&mut self, name: &'static str, bytes: &[u8]) {
        self.trace.field(name, FieldType::LongBytes, 0);
        self.bytes.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    /// The last field of a payload.
    pub fn rest(&mut self, name: &'static str, bytes: &[u8]) {
        self.trace.field(name, FieldType::Rest, 0);
        self.bytes.extend_from_slice(bytes);
    }

    pub fn structure(&mut self, name: &'static str, structure: &'static str, put: impl FnOnce(&mut Self)) {
        self.trace.field(name, FieldType::Structure(structure), 0);
        self.trace.begin(structure);
        put(self);
        self.trace.end();
    }

    /// The number of structures, which the limits of S3 keep below 65,536, and then the structures.
    pub fn list16<E>(
        &mut self,
        name: &'static str,
        structure: &'static str,
        entries: &[E],
        put: impl Fn(&mut Self, &E),
    ) {
        self.trace.field(name, FieldType::List16(structure), 0);
        self.bytes.extend_from_slice(&(entries.len() as u16).to_le_bytes());
        self.entries(structure, entries, put);
    }

    pub fn list32<E>(
        &mut self,
        name: &'static str,
        structure: &'static str,
        entries: &[E],
        put: impl Fn(&mut Self, &E),
    ) {
        self.trace.field(name, FieldType::List32(structure), 0);
        self.bytes.extend_from_slice(&(entries.len() as u32).to_le_bytes());
        self.entries(structure, entries, put);
    }

    fn entries<E>(&mut self, structure: &'static str, entries: &[E], put: impl Fn(&mut Self, &E)) {
        for entry in entries {
            self.trace.begin(structure);
            put(self, entry);
            self.trace.end();
        }
    }

    /// The number of integers, and then the integers.
    pub fn u64s(&mut self, name: &'static str, values: &[u64]) {
        self.trace.field(name, FieldType::List32("u64"), 0);
        self.bytes.extend_from_slice(&(values.len() as u32).to_le_bytes());
        values.iter().for_each(|value| self.bytes.extend_from_slice(&value.to_le_bytes()));
    }
}
