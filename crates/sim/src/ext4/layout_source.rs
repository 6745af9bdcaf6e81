//! Where a scenario's tree comes from: it is drawn, or was taken from an image.
//!
//! In:    the key `tree`: a table of parameters, or the name of a layout or of a file with one.
//! Out:   the layout.
//! Never: a file that is read twice.

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

/// A scenario's tree.
#[derive(Clone, Debug)]
pub enum LayoutSource {
    /// Drawn from the seed.
    Synthetic(SyntheticTree),
    /// Taken from an image.
    Recorded(Arc<RecordedLayout>),
}

impl LayoutSource {
    /// What is impossible in it, for a file system of this size.
    ///
    /// # Errors
    ///
    /// Which parameter, and what would be possible.
    pub fn check(&self, size: ByteCount) -> Result<(), String> {
        match self {
            Self::Synthetic(tree) => tree.check(size),
            Self::Recorded(taken) if taken.size() <= size => Ok(()),
            Self::Recorded(taken) => {
                Err(format!("tree: wants a file of at least {} bytes, as its image", taken.size()))
            }
        }
    }

    /// It on a file system of this size; None if more files were drawn than it has room for.
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

/// 100 files in each of 1000 directories, as the kernel's ext4 laid them.
const LAB: &str = include_str!("../../data/lab.layout");
