//! The access methods: through the kernel's page cache, around it, and through foreread; and a
//! plain copy inside memory, which a cached read is near at best.

use serde::Serialize;

use super::pattern::AccessPattern;

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessMethod {
    Buffered,
    Direct,
    Foreread,
    Memory,
}

impl AccessMethod {
    pub const ALL: [Self; 4] = [Self::Buffered, Self::Direct, Self::Foreread, Self::Memory];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Direct => "direct",
            Self::Foreread => "foreread",
            Self::Memory => "memory",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}

/// Returns true if a method can run a pattern: hot patterns need a cache, memory runs only those,
/// and the kernel cannot pin pages.
pub fn can(method: AccessMethod, pattern: AccessPattern) -> bool {
    match method {
        AccessMethod::Foreread => true,
        AccessMethod::Buffered => !pattern.is_pinned(),
        AccessMethod::Direct => pattern.hot_set().is_none(),
        AccessMethod::Memory => pattern.hot_set().is_some(),
    }
}
