//! What has parts: arrays, maps and structs, as [`Writer`] writes them.

use serde::Serialize;
use serde::ser::{
    SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant,
};
use serde_json::Error;

use super::{Texts, Writer};

/// One of them that has begun.
pub(super) struct Compound<'w> {
    pub writer: &'w mut Writer,
    /// By what it ends; by nothing where its one field is JSON already.
    pub ends: &'static [u8],
}

impl Compound<'_> {
    #[inline]
    fn element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        self.writer.separate();
        value.serialize(&mut *self.writer)
    }

    #[inline]
    fn field<T: ?Sized + Serialize>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        if self.ends.is_empty() {
            return self.raw(value);
        }
        self.writer.separate();
        self.writer.name(key);
        value.serialize(&mut *self.writer)
    }

    #[cold]
    fn raw<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        self.writer.texts = Texts::Raw;
        let written = value.serialize(&mut *self.writer);
        self.writer.texts = Texts::Quoted;
        written
    }

    #[inline]
    fn close(self) {
        self.writer.out.extend_from_slice(self.ends);
    }
}

impl SerializeMap for Compound<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<(), Error> {
        self.writer.separate();
        let from = self.writer.out.len();
        key.serialize(&mut *self.writer)?;
        self.writer.quote_key(from)
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), Error> {
        self.close();
        Ok(())
    }
}

/// Arrays.
macro_rules! of_elements {
    ($($kind:ident, $element:ident;)+) => {
        $(impl $kind for Compound<'_> {
            type Ok = ();
            type Error = Error;

            #[inline]
            fn $element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), Error> {
                self.element(value)
            }

            #[inline]
            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        })+
    };
}

of_elements! {
    SerializeSeq, serialize_element;
    SerializeTuple, serialize_element;
    SerializeTupleStruct, serialize_field;
    SerializeTupleVariant, serialize_field;
}

/// Structs.
macro_rules! of_fields {
    ($($kind:ident;)+) => {
        $(impl $kind for Compound<'_> {
            type Ok = ();
            type Error = Error;

            #[inline]
            fn serialize_field<T: ?Sized + Serialize>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.field(key, value)
            }

            #[inline]
            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        })+
    };
}

of_fields! {
    SerializeStruct;
    SerializeStructVariant;
}
