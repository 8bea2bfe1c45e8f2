//! The system calls behind a confined process. On systems other than Unix a program runs without a memory limit, and its children
//! are its own.

use std::process::{Child, Command};

use super::process::Reaped;

#[cfg(unix)]
mod calls {
    use super::{Child, Command, Reaped};
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::ExitStatus;

    /// A group of its own, and a limit on the address space of each of its processes.
    pub fn confine(command: &mut Command, memory: u64) {
        command.process_group(0);
        #[cfg(target_os = "linux")]
        let parent = std::process::id();
        let memory = memory.min(hard_limit());
        // SAFETY: between fork and exec only async-signal-safe calls are made (prctl, getppid, setrlimit).
        unsafe {
            command.pre_exec(move || {
                // It must not outlive us, even when we are killed. (Its children then end as it does, or not at all.)
                #[cfg(target_os = "linux")]
                {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    if libc::getppid() as u32 != parent {
                        return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
                    }
                }
                let limit = libc::rlimit {
                    rlim_cur: memory as libc::rlim_t,
                    rlim_max: memory as libc::rlim_t,
                };
                if libc::setrlimit(libc::RLIMIT_AS, &limit) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
    }

    /// The limit that we are under ourselves: a higher one can't be set.
    fn hard_limit() -> u64 {
        let mut limit = libc::rlimit {
            rlim_cur: libc::RLIM_INFINITY,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: getrlimit writes the struct, or leaves it as it is.
        unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) };
        limit.rlim_max
    }

    fn signal_group(child: &Child, signal: i32) {
        if let Ok(group) = libc::pid_t::try_from(child.id()) {
            // SAFETY: kill has no memory effects. A group that is gone is an error that we ignore on purpose.
            unsafe { libc::kill(-group, signal) };
        }
    }

    pub fn terminate(child: &mut Child) {
        signal_group(child, libc::SIGTERM);
    }

    pub fn kill(child: &mut Child) {
        signal_group(child, libc::SIGKILL);
    }

    /// Whether it has ended. It is not reaped: its number stays its own, so that its group can still be killed.
    pub fn has_ended(child: &mut Child) -> bool {
        // SAFETY: an all-zero siginfo_t is valid, and waitid writes it.
        let (result, info) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            let result = libc::waitid(libc::P_PID, child.id() as libc::id_t, &mut info, options);
            (result, info)
        };
        // SAFETY: waitid filled the field in; of a child that still runs it is 0.
        result == 0 && unsafe { info.si_pid() } != 0
    }

    /// Waits for it; call it once.
    pub fn reap(child: &mut Child) -> std::io::Result<Reaped> {
        let mut status = 0;
        loop {
            // SAFETY: an all-zero rusage is valid, and wait4 writes both.
            let (result, usage) = unsafe {
                let mut usage: libc::rusage = std::mem::zeroed();
                let result = libc::wait4(child.id() as libc::pid_t, &mut status, 0, &mut usage);
                (result, usage)
            };
            if result >= 0 {
                // Linux counts in KiB, macOS in bytes.
                let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
                return Ok(Reaped {
                    status: ExitStatus::from_raw(status),
                    peak_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * unit,
                });
            }
            let error = std::io::Error::last_os_error();
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

#[cfg(not(unix))]
mod calls {
    use super::{Child, Command, Reaped};

    pub fn confine(_: &mut Command, _: u64) {}

    pub fn terminate(child: &mut Child) {
        kill(child);
    }

    pub fn kill(child: &mut Child) {
        // A child that is gone is an error that we ignore on purpose.
        let _ = child.kill();
    }

    pub fn has_ended(child: &mut Child) -> bool {
        child.try_wait().is_ok_and(|status| status.is_some())
    }

    pub fn reap(child: &mut Child) -> std::io::Result<Reaped> {
        Ok(Reaped {
            status: child.wait()?,
            peak_bytes: 0,
        })
    }
}

pub(super) use calls::{confine, has_ended, kill, reap, terminate};
