//! Newtype indices into the flat vectors of a module; an index of one kind can't be used for another.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! index {
    ($(#[$meta:meta])* $name:ident, $prefix:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub u32);
        impl $name {
            /// The position in its vector.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

index!(
    /// A register of one function; registers hold storages, tensors and tuples.
    Reg,
    "%"
);
index!(
    /// A slot of one function's integer table: the values of its symbolic variables and expressions.
    Slot,
    "$"
);
index!(
    /// A function of a module.
    FunctionId,
    "f"
);
index!(
    /// A kernel of a module.
    KernelId,
    "k"
);
index!(
    /// A constant of a module.
    ConstId,
    "c"
);
