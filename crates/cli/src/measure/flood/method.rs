//! Access methods of a flood.

/// One method to reach the device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FloodMethod {
    /// `O_DIRECT`, with this scheduler of the kernel's, or with the one in force.
    Direct { scheduler: Option<String> },
    /// Through foreread.
    Foreread,
}

impl FloodMethod {
    /// Returns the name on the command line.
    pub fn name(&self) -> String {
        match self {
            Self::Direct { scheduler: None } => "direct".to_owned(),
            Self::Direct { scheduler: Some(name) } => format!("direct:{name}"),
            Self::Foreread => "foreread".to_owned(),
        }
    }
}
