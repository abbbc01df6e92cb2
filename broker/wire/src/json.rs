//! JSON as it is written: into journals, messages and answers.
//!
//! The same texts as serde_json's own writers give. Those hand a text over in many small pieces and look at each
//! byte of each key: for what is short, and that is nearly all of it, this costs more than the text. Here a key
//! goes out in one piece, and what has nothing to escape is copied as it is. Numbers with a point, and whatever is
//! to be escaped, serde_json writes. Reads nothing.

mod compound;

use std::fmt::{self, Write as _};

use serde::Serialize;
use serde::ser::{Error as _, Serializer};
use serde_json::Error;

use crate::decimal::Decimal;
use compound::Compound;

/// Room that most texts fit in: it is taken once, and what is not needed of it given back.
const ROOM: usize = 1024;
/// What serde_json calls a struct of one field whose text is JSON already.
const RAW: &str = "$serde_json::private::RawValue";

/// The text of `value`.
///
/// # Panics
/// A map of it has keys that are no texts, or a `Serialize` of ours fails: neither type is of this crate's.
pub fn to_vec<T: ?Sized + Serialize>(value: &T) -> Vec<u8> {
    let mut writer = Writer {
        out: Vec::with_capacity(ROOM),
        texts: Texts::Quoted,
    };
    let written = value.serialize(&mut writer);
    written.expect("types of the wire are JSON");
    writer.out
}

/// The same as a string, with no more memory than its text needs: records wait for a disk in great numbers.
///
/// # Panics
/// As [`to_vec`].
pub fn to_string<T: ?Sized + Serialize>(value: &T) -> String {
    let text = to_vec(value);
    std::str::from_utf8(&text)
        .expect("JSON is UTF-8")
        .to_owned()
}

/// Where a value is written to.
struct Writer {
    out: Vec<u8>,
    texts: Texts,
}

/// How the next text goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Texts {
    Quoted,
    /// It is JSON.
    Raw,
}

impl Writer {
    /// Behind what is before it in the same braces or brackets: nothing but their beginning ends with one of these.
    #[inline]
    fn separate(&mut self) {
        if !matches!(self.out.last(), Some(b'{' | b'[')) {
            self.out.push(b',');
        }
    }

    /// The name of a field or of a variant: written in Rust, so there is nothing in it to escape.
    #[inline]
    fn name(&mut self, name: &'static str) {
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn text(&mut self, text: &str) -> Result<(), Error> {
        if !is_plain(text.as_bytes()) {
            return serde_json::to_writer(&mut self.out, text);
        }
        self.out.reserve(text.len() + 2);
        self.out.push(b'"');
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'"');
        Ok(())
    }

    fn whole(&mut self, number: u64) {
        self.out.extend_from_slice(Decimal::of(number).as_bytes());
    }

    fn signed(&mut self, number: i64) {
        if number < 0 {
            self.out.push(b'-');
        }
        self.whole(number.unsigned_abs());
    }

    /// A key of a map that was just written from here on. One that is no text has quotes around it; what cannot be
    /// a key ends up as neither text, number nor word.
    fn quote_key(&mut self, from: usize) -> Result<(), Error> {
        match self.out.get(from) {
            Some(b'"') => {}
            Some(b'-' | b'0'..=b'9' | b't' | b'f') => {
                self.out.insert(from, b'"');
                self.out.push(b'"');
            }
            _ => return Err(Error::custom("key must be a string")),
        }
        self.out.push(b':');
        Ok(())
    }

    fn begin(&mut self, begins: &[u8], ends: &'static [u8]) -> Result<Compound<'_>, Error> {
        self.out.extend_from_slice(begins);
        Ok(Compound { writer: self, ends })
    }

    fn begin_variant(
        &mut self,
        variant: &'static str,
        begins: &[u8],
        ends: &'static [u8],
    ) -> Result<Compound<'_>, Error> {
        self.out.push(b'{');
        self.name(variant);
        self.begin(begins, ends)
    }
}

/// Whether nothing of a text is to be escaped. Of a text that has nothing to escape it may say that there is
/// something: then it is only written more slowly.
fn is_plain(text: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    // The bytes that are less than this, or have borrowed from one.
    let below = |word: u64, least: u64| word.wrapping_sub(ONES * least) & !word & HIGH;
    let (words, rest) = text.as_chunks::<8>();
    let is_word_plain = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        let of = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
        below(word, 0x20) | of(b'"') | of(b'\\') == 0
    };
    let is_byte_plain = |byte: &u8| *byte >= 0x20 && *byte != b'"' && *byte != b'\\';
    words.iter().all(is_word_plain) && rest.iter().all(is_byte_plain)
}

/// What is shown, as the inside of a text.
struct Shown<'w>(&'w mut Vec<u8>);

impl fmt::Write for Shown<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if is_plain(text.as_bytes()) {
            self.0.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        let from = self.0.len();
        serde_json::to_writer(&mut *self.0, text).map_err(|_| fmt::Error)?;
        // It is within quotes already.
        self.0.remove(from);
        self.0.pop();
        Ok(())
    }
}

impl<'w> Serializer for &'w mut Writer {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Compound<'w>;
    type SerializeTuple = Compound<'w>;
    type SerializeTupleStruct = Compound<'w>;
    type SerializeTupleVariant = Compound<'w>;
    type SerializeMap = Compound<'w>;
    type SerializeStruct = Compound<'w>;
    type SerializeStructVariant = Compound<'w>;

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        let word: &[u8] = match value {
            true => b"true",
            false => b"false",
        };
        self.out.extend_from_slice(word);
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Error> {
        self.signed(value);
        Ok(())
    }

    fn serialize_i128(self, value: i128) -> Result<(), Error> {
        serde_json::to_writer(&mut self.out, &value)
    }

    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        self.whole(value);
        Ok(())
    }

    fn serialize_u128(self, value: u128) -> Result<(), Error> {
        match u64::try_from(value) {
            Ok(value) => self.serialize_u64(value),
            Err(_) => serde_json::to_writer(&mut self.out, &value),
        }
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        serde_json::to_writer(&mut self.out, &value)
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        serde_json::to_writer(&mut self.out, &value)
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.text(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        match self.texts {
            Texts::Quoted => self.text(value),
            Texts::Raw => {
                self.out.extend_from_slice(value.as_bytes());
                Ok(())
            }
        }
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        self.text(variant)
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.out.push(b'{');
        self.name(variant);
        value.serialize(&mut *self)?;
        self.out.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Compound<'w>, Error> {
        self.begin(b"[", b"]")
    }

    fn serialize_tuple(self, _len: usize) -> Result<Compound<'w>, Error> {
        self.begin(b"[", b"]")
    }

    fn serialize_tuple_struct(self, _: &'static str, _len: usize) -> Result<Compound<'w>, Error> {
        self.begin(b"[", b"]")
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Compound<'w>, Error> {
        self.begin_variant(variant, b"[", b"]}")
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Compound<'w>, Error> {
        self.begin(b"{", b"}")
    }

    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Compound<'w>, Error> {
        match name {
            RAW => self.begin(b"", b""),
            _ => self.begin(b"{", b"}"),
        }
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Compound<'w>, Error> {
        self.begin_variant(variant, b"{", b"}}")
    }

    fn collect_str<T: ?Sized + fmt::Display>(self, value: &T) -> Result<(), Error> {
        self.out.push(b'"');
        let shown = write!(Shown(&mut self.out), "{value}");
        shown.map_err(|_| Error::custom("a value cannot be shown"))?;
        self.out.push(b'"');
        Ok(())
    }
}

#[cfg(test)]
mod tests;
