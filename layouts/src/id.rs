//! Newtype indices. A problem is a few flat vectors; these are the only way into them, and they never mix.

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The index as a subscript.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The newtype of a subscript.
            ///
            /// # Panics
            /// When `index` exceeds 32 bits; the builder refuses problems in which one could.
            #[inline]
            pub fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("more than 2^32 items"))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

index!(
    /// An operator: a vertex of the dataflow graph, numbered in file order.
    OpId
);
index!(
    /// A tensor, numbered in file order. It has exactly one producer.
    TensorId
);
index!(
    /// A layout of one tensor, numbered within that tensor.
    LayoutId
);
index!(
    /// A configuration of one operator, numbered within that operator.
    ConfigId
);
