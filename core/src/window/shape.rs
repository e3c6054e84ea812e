//! The stored layout of a type, as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserializer;
use serde::de::value::Error;
use serde::de::{
    DeserializeOwned, DeserializeSeed, EnumAccess, Error as _, IntoDeserializer, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};

/// The longest text: a larger type is described up to here.
const LIMIT: usize = 2048;
/// Options and sequences below this depth are left empty, which ends recursive types.
const DEPTH: usize = 12;

/// Describes what a type asks of a deserializer: numbers by width, structs by their fields, enums by their variants.
///
/// The names of types are left out: a type may be renamed, and its stored form stays the same. A type whose `Deserialize`
/// refuses the sample values (`1`, `""`) is described up to the refusal. The text depends on the type's `Deserialize`
/// alone, not on the compiler.
pub(super) fn shape_of<T: DeserializeOwned>() -> String {
    let mut tracer = Tracer::default();
    let mut traces: Vec<String> = Vec::new();
    loop {
        tracer.begin();
        // Refused samples end this trace, not the description.
        let _traced: Result<T, Error> = T::deserialize(&mut tracer);
        if !traces.contains(&tracer.text) {
            traces.push(tracer.text.clone());
        }
        let length: usize = traces.iter().map(String::len).sum();
        if !tracer.variants_left() || length > LIMIT {
            return traces.join(" | ");
        }
    }
}

/// A deserializer that notes what is asked of it.
#[derive(Default)]
struct Tracer {
    text: String,
    depth: usize,
    /// The enums that were met: the variant to show next, and their number. One trace shows one variant of each.
    enums: BTreeMap<&'static [&'static str], (u32, u32)>,
    /// The enums that were met in this trace.
    met: Vec<&'static [&'static str]>,
}

impl Tracer {
    fn begin(&mut self) {
        self.text.clear();
        self.depth = 0;
        for variants in self.met.drain(..) {
            if let Some((next, count)) = self.enums.get_mut(variants) {
                *next = (*next + 1).min(*count);
            }
        }
    }

    /// Returns whether an enum that was met in this trace has a variant that was not shown.
    fn variants_left(&self) -> bool {
        let left = |variants| {
            let state = self.enums.get(variants);
            state.is_some_and(|(next, count)| next + 1 < *count)
        };
        self.met.iter().any(|variants| left(*variants))
    }

    fn note(&mut self, text: &str) -> Result<(), Error> {
        if self.text.len() + text.len() > LIMIT {
            return Err(Error::custom("the description is long enough"));
        }
        self.text.push_str(text);
        Ok(())
    }

    /// Notes what stands between two brackets.
    fn inside<R>(
        &mut self,
        brackets: [&str; 2],
        inner: impl FnOnce(&mut Self) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let [open, close] = brackets;
        self.note(open)?;
        self.depth += 1;
        let value = inner(self)?;
        self.depth -= 1;
        self.note(close)?;
        Ok(value)
    }

    fn elements<'de, V: Visitor<'de>>(
        &mut self,
        names: &[&'static str],
        count: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Elements {
            tracer: self,
            names,
            at: 0,
            count,
        })
    }
}

macro_rules! scalars {
    ($($method:ident $visit:ident $sample:literal $name:literal),+ $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.note($name)?;
            visitor.$visit($sample)
        }
    )+};
}

impl<'de> Deserializer<'de> for &mut Tracer {
    type Error = Error;

    scalars! {
        deserialize_bool visit_bool false "bool",
        deserialize_i8 visit_i8 1 "i8",
        deserialize_i16 visit_i16 1 "i16",
        deserialize_i32 visit_i32 1 "i32",
        deserialize_i64 visit_i64 1 "i64",
        deserialize_i128 visit_i128 1 "i128",
        deserialize_u8 visit_u8 1 "u8",
        deserialize_u16 visit_u16 1 "u16",
        deserialize_u32 visit_u32 1 "u32",
        deserialize_u64 visit_u64 1 "u64",
        deserialize_u128 visit_u128 1 "u128",
        deserialize_f32 visit_f32 1.0 "f32",
        deserialize_f64 visit_f64 1.0 "f64",
        deserialize_char visit_char 'a' "char",
        deserialize_str visit_str "" "string",
        deserialize_string visit_str "" "string",
        deserialize_bytes visit_bytes b"" "bytes",
        deserialize_byte_buf visit_bytes b"" "bytes",
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        self.note("any")?;
        Err(Error::custom("stored state does not describe itself"))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.note("()")?;
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.inside(["option<", ">"], |tracer| match tracer.depth > DEPTH {
            true => visitor.visit_none(),
            false => visitor.visit_some(tracer),
        })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.inside(["[", "]"], |tracer| {
            let count = usize::from(tracer.depth <= DEPTH);
            tracer.elements(&[], count, visitor)
        })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.inside(["(", ")"], |tracer| tracer.elements(&[], count, visitor))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_tuple(count, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.inside(["map<", ">"], |tracer| {
            let left = tracer.depth <= DEPTH;
            visitor.visit_map(OneEntry { tracer, left })
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.inside(["{", "}"], |tracer| {
            tracer.elements(fields, fields.len(), visitor)
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let count = u32::try_from(variants.len()).unwrap_or(u32::MAX);
        let (next, _) = *self.enums.entry(variants).or_insert((0, count));
        if !self.met.contains(&variants) {
            self.met.push(variants);
        }
        // Nested in itself, or shown in full: any variant will do, and the last one mostly ends a recursion.
        let variant = next.min(count.saturating_sub(1));
        let mut open = String::from("enum{");
        let at = usize::try_from(variant).unwrap_or(usize::MAX);
        let name = variants.get(at).copied().unwrap_or_default();
        // Writing to a string does not fail.
        let _written = write!(open, "{}: {name}", variants.join(", "));
        if self.depth > DEPTH {
            return Err(Error::custom("a recursive type"));
        }
        self.inside([&open, "}"], |tracer| {
            visitor.visit_enum(Variant { tracer, variant })
        })
    }
}

/// The elements of a sequence, a tuple or a struct.
struct Elements<'a, 'n> {
    tracer: &'a mut Tracer,
    names: &'n [&'static str],
    at: usize,
    count: usize,
}

impl<'de> SeqAccess<'de> for Elements<'_, '_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        if self.at == self.count {
            return Ok(None);
        }
        if self.at > 0 {
            self.tracer.note(", ")?;
        }
        if let Some(name) = self.names.get(self.at) {
            self.tracer.note(name)?;
            self.tracer.note(": ")?;
        }
        self.at += 1;
        seed.deserialize(&mut *self.tracer).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.count - self.at)
    }
}

/// A map of one entry, or of none.
struct OneEntry<'a> {
    tracer: &'a mut Tracer,
    left: bool,
}

impl<'de> MapAccess<'de> for OneEntry<'_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        if !std::mem::take(&mut self.left) {
            return Ok(None);
        }
        seed.deserialize(&mut *self.tracer).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        self.tracer.note(", ")?;
        seed.deserialize(&mut *self.tracer)
    }
}

/// One variant of an enum.
struct Variant<'a> {
    tracer: &'a mut Tracer,
    variant: u32,
}

impl<'a, 'de> EnumAccess<'de> for Variant<'a> {
    type Error = Error;
    type Variant = &'a mut Tracer;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, &'a mut Tracer), Error> {
        let variant =
            seed.deserialize(IntoDeserializer::<Error>::into_deserializer(self.variant))?;
        Ok((variant, self.tracer))
    }
}

impl<'de> VariantAccess<'de> for &mut Tracer {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        self.inside(["(", ")"], |tracer| seed.deserialize(tracer))
    }

    fn tuple_variant<V: Visitor<'de>>(self, count: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_tuple(count, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_struct("", fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::Ipv4Addr;
    use std::num::NonZeroU64;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "described, not used")]
    struct Order {
        id: NonZeroU64,
        price: Price,
        note: Option<String>,
        parts: Vec<(u32, f32)>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "described, not used")]
    struct Price(i64);

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "described, not used")]
    enum Change {
        None,
        Up(u64),
        Moved { x: f64, y: f64 },
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "described, not used")]
    struct Tree {
        left: Option<Box<Tree>>,
        right: Option<Box<Tree>>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "described, not used")]
    enum List {
        Node(u8, Box<List>),
        End,
    }

    #[test]
    fn shapes_never_change() {
        // Stored with state: another text for the same type refuses the state of every job.
        assert_eq!(shape_of::<u64>(), "u64");
        assert_eq!(shape_of::<usize>(), "u64");
        assert_eq!(
            shape_of::<(u64, Option<i64>, ())>(),
            "(u64, option<i64>, ())"
        );
        assert_eq!(shape_of::<Price>(), "i64");
        assert_eq!(
            shape_of::<Order>(),
            "{id: u64, price: i64, note: option<string>, parts: [(u32, f32)]}"
        );
        assert_eq!(
            shape_of::<HashMap<String, [bool; 2]>>(),
            "map<string, (bool, bool)>"
        );
        assert_eq!(
            shape_of::<Change>(),
            "enum{None, Up, Moved: None} | enum{None, Up, Moved: Up(u64)} | \
             enum{None, Up, Moved: Moved{x: f64, y: f64}}"
        );
        assert_eq!(shape_of::<Ipv4Addr>(), "(u8, u8, u8, u8)");
    }

    #[test]
    fn recursive_types_have_a_shape_too() {
        for shape in [shape_of::<Tree>(), shape_of::<List>()] {
            assert!(!shape.is_empty() && shape.len() < 3 * LIMIT, "{shape}");
        }
    }

    #[test]
    fn a_type_that_refuses_the_samples_is_described_up_to_there() {
        assert_eq!(shape_of::<(u8, serde_json::Value, u8)>(), "(u8, any");
    }
}
