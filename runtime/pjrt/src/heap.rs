//! The process's heap, which Rust and the plugins share.

/// Gives memory that was freed back to the operating system; the number of milliseconds that it takes grows with the
/// heap.
///
/// An allocator keeps what was freed for the next allocation. Executables and tensors are many and large, and each
/// thread has a pool of its own, so that after some hundred of them most of the process's memory is in nobody's use.
pub fn release_unused_memory() {
    // SAFETY: glibc locks each of its pools while it trims them; no memory that is in use is touched.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    fn resident_bytes() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    fn what_another_thread_freed_is_given_back() {
        let before = resident_bytes();
        let kept = std::thread::spawn(|| {
            let mut blocks: Vec<Vec<u8>> = (0..16_384).map(|_| vec![1; 8192]).collect();
            // The newest block is what keeps the pool from shrinking by itself.
            blocks.pop()
        });
        let kept = kept.join().unwrap();
        let freed = resident_bytes();
        release_unused_memory();
        let after = resident_bytes();
        assert!(freed > before + (96 << 20), "the allocator gave {before} to {freed} back by itself");
        assert!(after < freed - (96 << 20), "{freed} bytes before, {after} after");
        drop(kept);
    }
}
