//! Eliminating behind the builder: each operator brings its variables and tables, and what is complete and small goes at once.

use super::Stop;
use super::model::{Builder, Modelling};
use super::network::Var;
use super::queue::Buckets;
use super::read_ahead::{STRIDE, read_ahead};
use super::repeats::Repeats;
use super::replay::Replay;
use super::solve::{Elimination, Outcome, flag};
use crate::id::OpId;
use crate::problem::Problem;

/// Variables that had to wait for that long, in operators, are eliminated all the same if their messages have at most
/// 2^([`RIPE_LOG`] / 64) entries: what could make them smaller has been met by then. Without that, half of a model of
/// repeated blocks waits to the end, out of the cache.
const RIPE_AFTER: usize = 128;
pub(super) const RIPE_LOG: u32 = 64 * 8;

/// What an elimination behind a builder came to.
pub(super) struct Streamed {
    /// The variable of each operator.
    pub variables: Vec<Var>,
    /// Set when a limit was met before all tensors were there: the elimination cannot go on, and the bound lacks this.
    pub missing: Option<u64>,
    pub outcome: Outcome,
}

impl Elimination<'_> {
    /// Builds the network of `problem` operator by operator in this topological order (of the whole or of some of its
    /// components) and eliminates behind: what is alive at a time is a few
    /// operators' tables, so that they stay in the cache and the whole network never exists. Then as [`Self::run`], whose
    /// limit does not touch the small tables until then.
    pub fn stream(
        &mut self,
        problem: &Problem,
        order: &[OpId],
        modelling: Modelling,
        repeats: Repeats,
        most: usize,
    ) -> Streamed {
        let mut builder = Builder::new(problem, modelling);
        let mut complete = false;
        let result = self
            .stream_all(problem, order, &mut builder, repeats)
            .and_then(|()| {
                complete = true;
                self.most = most;
                self.advance(false)
            });
        let missing = (!complete).then_some(builder.to_come);
        Streamed {
            variables: builder.into_variables(),
            missing,
            outcome: self.outcome(result),
        }
    }

    fn stream_all(
        &mut self,
        problem: &Problem,
        order: &[OpId],
        builder: &mut Builder<'_>,
        repeats: Repeats,
    ) -> Result<(), Stop> {
        self.small = Some(Buckets::default());
        let mut replay = Replay::new(order, repeats);
        let (mut i, mut next_read) = (0, 0);
        while i < order.len() {
            if replay.is_border(i, &self.net) {
                self.waited = self.waiting.len();
                self.ripen();
                self.advance(false)?;
                let next = self.at_border(&mut replay, builder, i)?;
                if next > i {
                    i = next;
                    continue;
                }
            }
            if i >= next_read {
                if self.budget.exhausted() {
                    return Err(Stop::Time);
                }
                read_ahead(problem, order, i);
                next_read = i + STRIDE;
            }
            let o = order[i];
            let known = self.net.len() as Var;
            let others = builder.tensor(&mut self.net, problem.operator(o).output)?;
            replay.met(others..self.net.len() as Var);
            self.grow();
            for v in known..others {
                self.flags[v as usize] |= flag::OPEN;
            }
            // Its inputs came before, so that all its tables are there.
            let own = builder.variable(&mut self.net, o)?;
            self.flags[own as usize] &= !flag::OPEN;
            self.touch(own);
            for v in others..self.net.len() as Var {
                self.touch(v);
            }
            self.advance(false)?;
            i += 1;
            if (i - replay.phase()).is_multiple_of(RIPE_AFTER) {
                self.ripen();
                self.advance(false)?;
            }
        }
        self.small = None;
        self.waiting = Vec::new();
        for v in 0..self.net.len() as Var {
            self.keys[v as usize] = u64::MAX;
            self.touch(v);
        }
        Ok(())
    }

    /// Those that waited through a whole round may be eliminated at a higher price.
    fn ripen(&mut self) {
        for v in self.waiting.drain(..self.waited).collect::<Vec<_>>() {
            let flags = &mut self.flags[v as usize];
            *flags &= !flag::WAITING;
            if *flags & flag::GONE == 0 {
                *flags |= flag::RIPE;
                self.keys[v as usize] = u64::MAX;
                self.touch(v);
            }
        }
        self.waited = self.waiting.len();
    }
}
