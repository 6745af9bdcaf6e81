//! The key `tree` of a scenario: parameters of a synthetic tree, the name of a built-in layout, or
//! the path of a layout file. Each file is read once.

use std::fmt;
use std::fs;
use std::sync::Arc;

use foreread_core::units::ByteCount;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::layout::TreeLayout;
use super::recorded::RecordedLayout;
use super::synthetic::SyntheticTree;
use crate::rng::Rng;

/// Source of a scenario's tree.
#[derive(Clone, Debug)]
pub enum LayoutSource {
    /// Generated from the seed.
    Synthetic(SyntheticTree),
    /// Recorded from an image.
    Recorded(Arc<RecordedLayout>),
}

impl LayoutSource {
    /// Checks that the tree fits a file system of this size.
    ///
    /// # Errors
    ///
    /// The parameter that is out of range, and the possible values.
    pub fn check(&self, size: ByteCount) -> Result<(), String> {
        match self {
            Self::Synthetic(tree) => tree.check(size),
            Self::Recorded(taken) if taken.size() <= size => Ok(()),
            Self::Recorded(taken) => Err(format!(
                "tree: the file must have at least {} bytes, like the recorded image",
                taken.size()
            )),
        }
    }

    /// Builds the layout for a file system of this size; None if the generated files do not fit.
    #[must_use]
    pub fn layout(&self, size: ByteCount, rng: Rng) -> Option<TreeLayout> {
        match self {
            Self::Synthetic(tree) => tree.draw(size, rng),
            Self::Recorded(taken) => Some(taken.layout()),
        }
    }
}

impl<'de> Deserialize<'de> for LayoutSource {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NameOrParameters)
    }
}

struct NameOrParameters;

impl<'de> Visitor<'de> for NameOrParameters {
    type Value = LayoutSource;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"lab\", the path of a layout, or the parameters of a tree")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<LayoutSource, E> {
        let parse =
            |text: &str| RecordedLayout::parse(text).map_err(|why| format!("{name}: {why}"));
        let taken = if name == "lab" {
            parse(LAB)
        } else if name.contains(['/', '.']) {
            fs::read_to_string(name)
                .map_err(|error| format!("{name}: {error}"))
                .and_then(|text| parse(&text))
        } else {
            Err(format!("no layout {name:?}; choose \"lab\", or ./{name} for a file"))
        };
        taken.map(|taken| LayoutSource::Recorded(Arc::new(taken))).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LayoutSource, A::Error> {
        SyntheticTree::deserialize(MapAccessDeserializer::new(map)).map(LayoutSource::Synthetic)
    }
}

/// 100 files in each of 1000 directories, as the kernel's ext4 placed them.
const LAB: &str = include_str!("../../data/lab.layout");
