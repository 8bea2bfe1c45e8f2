//! What an elimination remembers: per eliminated variable, its best value for every tuple of the neighbours it had.
//!
//! A model of a million operators has millions of small records; they lie in a few chunks, not in allocations of their
//! own, and nothing is ever copied to make room.

use std::ops::Range;

use super::network::{Domain, Network, Var};

/// Bytes of a chunk, unless one record needs more.
const CHUNK: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
struct Head {
    variable: Var,
    domain: Domain,
    /// Where its neighbours start.
    scope: u32,
    /// Where its choices lie.
    chunk: u32,
    offset: usize,
}

/// The records, in order of elimination.
#[derive(Debug, Default)]
pub(super) struct Records {
    heads: Vec<Head>,
    scopes: Vec<(Var, Domain)>,
    chunks: Vec<Vec<u8>>,
    /// The chunk that has room left.
    open: usize,
}

/// Bytes of one choice, a position in a domain of this size.
pub(super) fn choice_bytes(size: usize) -> usize {
    match size {
        0..=0x100 => 1,
        0x101..=0x1_0000 => 2,
        _ => 4,
    }
}

impl Records {
    /// Bytes that a record takes.
    pub fn bytes(size: usize, neighbours: usize, entries: usize) -> u64 {
        let fixed = size_of::<Head>() + neighbours * size_of::<(Var, Domain)>();
        fixed as u64 + (entries as u64).saturating_mul(choice_bytes(size) as u64)
    }

    /// A record for `v` and its neighbours, to be filled by [`Choices::push`].
    pub fn open(&mut self, net: &Network, v: Var, scope: &[Var], entries: usize) -> Choices<'_> {
        let bytes = entries * choice_bytes(net.size(v));
        let chunk = if bytes * 4 > CHUNK {
            // A large record has a chunk of its own; the open one stays open.
            self.chunks.push(Vec::with_capacity(bytes));
            self.chunks.len() - 1
        } else {
            let fits = |c: &Vec<u8>| c.capacity() - c.len() >= bytes;
            if !self.chunks.get(self.open).is_some_and(fits) {
                self.chunks.push(Vec::with_capacity(CHUNK));
                self.open = self.chunks.len() - 1;
            }
            self.open
        };
        let data = &mut self.chunks[chunk];
        self.heads.push(Head {
            variable: v,
            domain: net.domain(v),
            scope: self.scopes.len() as u32,
            chunk: chunk as u32,
            offset: data.len(),
        });
        self.scopes.extend(scope.iter().map(|&u| (u, net.domain(u))));
        Choices {
            data,
            width: choice_bytes(net.size(v)),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// The variable of a record, then the neighbours it had.
    pub fn variables(&self, record: usize) -> impl Iterator<Item = Var> {
        let neighbours = self.scopes[self.scope(record)].iter();
        std::iter::once(self.heads[record].variable).chain(neighbours.map(|s| s.0))
    }

    fn scope(&self, record: usize) -> Range<usize> {
        let end = self
            .heads
            .get(record + 1)
            .map_or(self.scopes.len(), |h| h.scope as usize);
        self.heads[record].scope as usize..end
    }

    /// Bytes that copies of these records take.
    pub fn copied_bytes(&self, records: Range<usize>) -> u64 {
        records.map(|r| Self::bytes(1, self.scope(r).len(), 0)).sum()
    }

    /// The same choices for another variable and other neighbours, which follow it in the order of [`Self::variables`].
    pub fn copy(&mut self, record: usize, mut variables: impl Iterator<Item = Var>) {
        let scope = self.scope(record);
        let Some(variable) = variables.next() else { return };
        self.heads.push(Head {
            variable,
            scope: self.scopes.len() as u32,
            ..self.heads[record]
        });
        for (i, v) in scope.zip(variables) {
            self.scopes.push((v, self.scopes[i].1));
        }
    }

    /// Forgets the last record, whose filling was interrupted.
    pub fn pop(&mut self) {
        if let Some(head) = self.heads.pop() {
            self.scopes.truncate(head.scope as usize);
            self.chunks[head.chunk as usize].truncate(head.offset);
        }
    }

    /// Original values of all variables: each at its best given those that outlived it. `left` are the values of those that
    /// were not eliminated.
    pub fn backtrack(&self, net: &Network, left: &[(Var, u32)]) -> Vec<u32> {
        let mut best = vec![0; net.len()];
        left.iter().for_each(|&(v, value)| best[v as usize] = value);
        let mut end = self.scopes.len();
        for head in self.heads.iter().rev() {
            let scope = &self.scopes[head.scope as usize..end];
            end = head.scope as usize;
            let index = scope.iter().fold(0, |index, &(u, domain)| {
                index * domain.size as usize + net.position(domain, best[u as usize])
            });
            let width = choice_bytes(head.domain.size as usize);
            let at = head.offset + index * width;
            let bytes = &self.chunks[head.chunk as usize][at..at + width];
            let position = bytes.iter().rev().fold(0u32, |n, &b| n << 8 | u32::from(b));
            best[head.variable as usize] = net.value(head.domain, position);
        }
        best
    }
}

/// Where the choices of one record go.
pub(super) struct Choices<'a> {
    data: &'a mut Vec<u8>,
    width: usize,
}

impl Choices<'_> {
    pub fn push(&mut self, positions: &[u32]) {
        match self.width {
            1 => self.data.extend(positions.iter().map(|&p| p as u8)),
            width => positions
                .iter()
                .for_each(|p| self.data.extend_from_slice(&p.to_le_bytes()[..width])),
        }
    }
}
