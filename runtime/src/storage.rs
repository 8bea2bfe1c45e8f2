//! Memory: aligned host buffers, and the pool from which the VM takes storages.
//!
//! A storage that nothing refers to any more goes back to its pool and is taken again by the next request of about its size, in the same
//! run or a later one. Capacities are rounded up to eight steps per power of two, so that shapes which grow little by little (a decoder's
//! sequence length) meet the same few capacities.

use crate::device::{BufferId, Device, DeviceError};
use crate::module::ALIGNMENT;
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Host memory aligned to [`ALIGNMENT`], zeroed when allocated.
pub(crate) struct AlignedBuffer {
    data: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the buffer owns its memory exclusively; access goes through references or is synchronised by the device.
unsafe impl Send for AlignedBuffer {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// At least `bytes` bytes (never none); `None` when the memory is not there.
    pub fn new(bytes: usize) -> Option<Self> {
        let size = bytes.max(1).checked_next_multiple_of(ALIGNMENT)?;
        let layout = Layout::from_size_align(size, ALIGNMENT).ok()?;
        // SAFETY: the layout's size is not zero.
        let data = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(AlignedBuffer { data, layout })
    }
    pub fn len(&self) -> usize {
        self.layout.size()
    }
    pub fn as_ptr(&self) -> *mut u8 {
        self.data.as_ptr()
    }
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the memory is owned, initialised and as long as the layout says.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len()) }
    }
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len()) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { std::alloc::dealloc(self.data.as_ptr(), self.layout) }
    }
}

/// What a pool holds and held, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolStats {
    /// Bytes of the storages in use, as requested.
    pub live: u64,
    /// The most that was ever live since the last reset.
    pub peak: u64,
    /// Bytes of device memory that the pool holds, idle storages included.
    pub reserved: u64,
    /// Device allocations made.
    pub allocations: u64,
    /// Requests answered from idle storages.
    pub reuses: u64,
}

#[derive(Default)]
struct PoolState {
    /// Idle buffers by capacity.
    idle: BTreeMap<usize, Vec<BufferId>>,
    stats: PoolStats,
}

/// A pool of storages on one device.
pub(crate) struct StoragePool {
    state: Arc<Mutex<PoolState>>,
    limit: Option<u64>,
}

/// A piece of device memory; dropping it gives it back to its pool.
pub struct Storage {
    buffer: BufferId,
    bytes: usize,
    capacity: usize,
    pool: Arc<Mutex<PoolState>>,
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Storage")
            .field("buffer", &self.buffer)
            .field("bytes", &self.bytes)
            .finish()
    }
}

impl Storage {
    pub(crate) fn buffer(&self) -> BufferId {
        self.buffer
    }
    /// Bytes that may be used.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        let mut state = lock(&self.pool);
        state.stats.live -= self.bytes as u64;
        state.idle.entry(self.capacity).or_default().push(self.buffer);
    }
}

/// Counters stay meaningful after a panic elsewhere, so a poisoned lock is taken over.
fn lock(state: &Mutex<PoolState>) -> MutexGuard<'_, PoolState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The capacity for a request: eight steps per power of two, at least [`ALIGNMENT`].
fn capacity_of(bytes: usize) -> Option<usize> {
    let bytes = bytes.max(ALIGNMENT);
    let step = (1usize << bytes.ilog2()) / 8;
    bytes.checked_next_multiple_of(step.max(ALIGNMENT))
}

impl StoragePool {
    /// A pool that reserves at most `limit` bytes.
    pub fn new(limit: Option<u64>) -> Self {
        StoragePool {
            state: Arc::default(),
            limit,
        }
    }

    /// A storage of `bytes` bytes: an idle one of at most one and a half times the capacity, or a new one.
    pub fn acquire(&self, device: &mut dyn Device, bytes: usize) -> Result<Arc<Storage>, DeviceError> {
        let mut state = lock(&self.state);
        let capacity = capacity_of(bytes).ok_or(DeviceError::Memory {
            bytes,
            in_use: state.stats.reserved,
            limit: None,
        })?;
        let most = capacity.saturating_add(capacity / 2);
        let idle = state
            .idle
            .range_mut(capacity..=most)
            .find_map(|(&found, list)| Some((list.pop()?, found)));
        let (buffer, capacity) = match idle {
            Some(found) => {
                state.stats.reuses += 1;
                found
            }
            None => {
                let within = |reserved: u64| {
                    self.limit
                        .is_none_or(|limit| reserved.saturating_add(capacity as u64) <= limit)
                };
                if !within(state.stats.reserved) {
                    release_idle(&mut state, device);
                }
                if !within(state.stats.reserved) {
                    return Err(DeviceError::Memory {
                        bytes,
                        in_use: state.stats.reserved,
                        limit: self.limit,
                    });
                }
                let buffer = device.alloc(capacity).or_else(|_| {
                    release_idle(&mut state, device);
                    device.alloc(capacity)
                })?;
                state.stats.allocations += 1;
                state.stats.reserved += capacity as u64;
                (buffer, capacity)
            }
        };
        state.stats.live += bytes as u64;
        state.stats.peak = state.stats.peak.max(state.stats.live);
        drop(state);
        Ok(Arc::new(Storage {
            buffer,
            bytes,
            capacity,
            pool: self.state.clone(),
        }))
    }

    pub fn stats(&self) -> PoolStats {
        lock(&self.state).stats
    }

    /// Starts a new peak at what is live now.
    pub fn reset_peak(&self) {
        let stats = &mut lock(&self.state).stats;
        stats.peak = stats.live;
    }

    /// Gives idle memory back to the device.
    pub fn trim(&self, device: &mut dyn Device) {
        release_idle(&mut lock(&self.state), device);
    }
}

fn release_idle(state: &mut PoolState, device: &mut dyn Device) {
    for (capacity, list) in std::mem::take(&mut state.idle) {
        for buffer in list {
            device.free(buffer);
            state.stats.reserved -= capacity as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_coarse_and_sufficient() {
        for bytes in (1..5000).chain([1 << 20, (1 << 20) + 1, 123_456_789]) {
            let capacity = capacity_of(bytes).unwrap();
            assert!(capacity >= bytes && capacity.is_multiple_of(ALIGNMENT));
            assert!(
                capacity <= bytes.max(ALIGNMENT) + (bytes / 8).max(ALIGNMENT),
                "{bytes} {capacity}"
            );
            assert_eq!(capacity_of(capacity), Some(capacity));
        }
        assert_eq!(capacity_of(usize::MAX), None);
    }

    #[test]
    fn buffers_are_aligned_zeroed_and_never_empty() {
        for bytes in [0, 1, 63, 64, 65, 4097] {
            let buffer = AlignedBuffer::new(bytes).unwrap();
            assert!(buffer.len() >= bytes.max(1));
            assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
            assert!(buffer.as_slice().iter().all(|b| *b == 0));
        }
        assert!(AlignedBuffer::new(usize::MAX).is_none());
    }
}
