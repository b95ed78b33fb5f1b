//! Tables of what a session holds, under handles that its client chose.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

use crate::error::{DaemonError, HandleKind, Result};
use crate::sync::lock;

/// What stands under a handle.
#[derive(Debug)]
enum Slot<T> {
    Ready(Arc<T>),
    /// The command that should have made it failed; so do the commands that use it.
    Failed(Arc<DaemonError>),
}

/// A table of one kind of thing.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    kind: HandleKind,
    slots: Mutex<HashMap<u64, Slot<T>>>,
}

impl<T> Handles<T> {
    pub(crate) fn new(kind: HandleKind) -> Self {
        Self { kind, slots: Mutex::default() }
    }

    /// Refuses 0 and handles in use, before work is done for one.
    pub(crate) fn check_free(&self, handle: u64) -> Result<()> {
        if handle == 0 {
            return Err(DaemonError::InvalidCommand(format!("0 is not a {} handle", self.kind)));
        }
        match lock(&self.slots).get(&handle) {
            Some(Slot::Ready(_)) => Err(DaemonError::HandleInUse { kind: self.kind, handle }),
            Some(Slot::Failed(_)) | None => Ok(()),
        }
    }

    /// Puts something under a handle.
    pub(crate) fn insert(&self, handle: u64, value: Arc<T>) -> Result<()> {
        match lock(&self.slots).entry(handle) {
            Entry::Occupied(entry) if matches!(entry.get(), Slot::Ready(_)) => {
                Err(DaemonError::HandleInUse { kind: self.kind, handle })
            }
            Entry::Occupied(mut entry) => {
                entry.insert(Slot::Ready(value));
                Ok(())
            }
            Entry::Vacant(entry) => {
                entry.insert(Slot::Ready(value));
                Ok(())
            }
        }
    }

    /// Remembers why a handle stands for nothing. A live one is left alone.
    pub(crate) fn fail(&self, handle: u64, cause: &Arc<DaemonError>) {
        if handle == 0 {
            return;
        }
        let mut slots = lock(&self.slots);
        if !matches!(slots.get(&handle), Some(Slot::Ready(_))) {
            slots.insert(handle, Slot::Failed(Arc::clone(cause)));
        }
    }

    pub(crate) fn get(&self, handle: u64) -> Result<Arc<T>> {
        match lock(&self.slots).get(&handle) {
            Some(Slot::Ready(value)) => Ok(Arc::clone(value)),
            Some(Slot::Failed(cause)) => {
                Err(DaemonError::HandleFailed { kind: self.kind, handle, cause: Arc::clone(cause) })
            }
            None => Err(DaemonError::UnknownHandle { kind: self.kind, handle }),
        }
    }

    /// Forgets handles; unknown ones are ignored. What they held is dropped after the lock is released.
    pub(crate) fn remove(&self, handles: &[u64]) {
        let mut slots = lock(&self.slots);
        let gone: Vec<_> = handles.iter().filter_map(|handle| slots.remove(handle)).collect();
        drop(slots);
        drop(gone);
    }

    pub(crate) fn clear(&self) {
        let gone = std::mem::take(&mut *lock(&self.slots));
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_handle_tells_its_cause_and_can_be_made_again() {
        let table = Handles::new(HandleKind::Buffer);
        table.fail(3, &Arc::new(DaemonError::NoDevice));
        let message = table.get(3).unwrap_err().to_string();
        assert_eq!(message, "buffer 3 was not made: this daemon has no device to execute on");
        table.check_free(3).unwrap();
        table.insert(3, Arc::new(1)).unwrap();
        table.fail(3, &Arc::new(DaemonError::NoDevice));
        assert_eq!(*table.get(3).unwrap(), 1, "a failure must not take away what lives");
        assert!(matches!(table.insert(3, Arc::new(2)), Err(DaemonError::HandleInUse { handle: 3, .. })));
        table.remove(&[3, 99]);
        assert!(matches!(table.get(3), Err(DaemonError::UnknownHandle { handle: 3, .. })));
        assert!(table.check_free(0).is_err());
    }
}
