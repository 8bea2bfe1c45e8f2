//! Newtype indices into flat arenas. An index of one kind can't be used with an arena of another.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A 32-bit index of one kind.
pub trait Idx: Copy + Eq {
    /// Wraps a position. Positions beyond `u32::MAX` are refused by [`Arena::push`].
    fn from_u32(raw: u32) -> Self;
    /// The position in the arena.
    fn index(self) -> usize;
}

/// Declares a newtype index with its doc comment and print prefix.
#[macro_export]
macro_rules! define_index {
    ($(#[$meta:meta])* $name:ident, $prefix:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);
        impl $crate::index::Idx for $name {
            fn from_u32(raw: u32) -> Self { $name(raw) }
            fn index(self) -> usize { self.0 as usize }
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { write!(f, "{}{}", $prefix, self.0) }
        }
    };
}

/// A flat vector addressed by one index type.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Arena<I, T> {
    items: Vec<T>,
    kind: PhantomData<fn(I) -> I>,
}

impl<I, T> Default for Arena<I, T> {
    fn default() -> Self {
        Arena {
            items: Vec::new(),
            kind: PhantomData,
        }
    }
}

impl<I: Idx, T> Arena<I, T> {
    /// An empty arena.
    pub fn new() -> Self {
        Self::default()
    }
    /// Appends an item and returns its index.
    ///
    /// # Panics
    /// After 2^32 items, which no program that fits in memory reaches.
    pub fn push(&mut self, item: T) -> I {
        let raw = u32::try_from(self.items.len()).expect("an arena holds fewer than 2^32 items");
        self.items.push(item);
        I::from_u32(raw)
    }
    /// The item, or `None` for an index of another arena.
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }
    /// Number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// Indices in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + use<I, T> {
        (0..self.items.len() as u32).map(I::from_u32)
    }
    /// Items with their indices, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> {
        self.items
            .iter()
            .enumerate()
            .map(|(i, t)| (I::from_u32(i as u32), t))
    }
    /// Mutable items with their indices, in order.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (I, &mut T)> {
        self.items
            .iter_mut()
            .enumerate()
            .map(|(i, t)| (I::from_u32(i as u32), t))
    }
}

impl<I: Idx, T> Index<I> for Arena<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Idx, T> IndexMut<I> for Arena<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

impl<I: Idx, T: fmt::Debug> fmt::Debug for Arena<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.items).finish()
    }
}
