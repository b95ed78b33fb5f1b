//! Platforms: where a plugin is found, how its client is opened, what its targets are called.

pub mod cpu;
mod python;
pub mod tpu;

use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// How a platform's plugin is found.
struct Search {
    platform: &'static str,
    /// An explicit path; nothing else is looked at when it is set.
    variable: &'static str,
    /// Paths below a Python environment's site-packages, best first.
    below_site_packages: &'static [&'static str],
    /// The end of "no plugin for …".
    install: &'static str,
}

impl Search {
    fn find(&self) -> Result<PathBuf> {
        self.find_in(std::env::var_os(self.variable), &mut python::site_packages)
    }

    /// `site_packages` yields directories best first; it may be slow at its end, so it is asked one by one.
    fn find_in(
        &self,
        explicit: Option<OsString>,
        site_packages: &mut dyn FnMut() -> Box<dyn Iterator<Item = PathBuf>>,
    ) -> Result<PathBuf> {
        let missing = |searched, install| Error::MissingPlugin { platform: self.platform, searched, install };
        if let Some(path) = explicit.filter(|value| !value.is_empty()) {
            let path = PathBuf::from(path);
            if path.is_file() {
                return Ok(path);
            }
            return Err(missing(vec![path], format!("{} must name the plugin's library", self.variable)));
        }
        let mut searched = Vec::new();
        for directory in site_packages() {
            for relative in self.below_site_packages {
                let path = directory.join(relative);
                if path.is_file() {
                    return Ok(path);
                }
                if !searched.contains(&path) {
                    searched.push(path);
                }
            }
        }
        let install = format!("{}, or set {} to the plugin's library", self.install, self.variable);
        Err(missing(searched, install))
    }
}

/// Memory of one device, by the platform's name and PJRT's device kind; none when it is not known.
#[must_use]
pub fn memory_bytes(platform: &str, kind: &str) -> Option<u64> {
    match platform {
        "cpu" => cpu::memory_bytes(),
        "tpu" => tpu::memory_bytes(kind),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: Search = Search {
        platform: "cpu",
        variable: "TPUD_CPU_PLUGIN",
        below_site_packages: &["a/a.so", "b/b.so"],
        install: "`pip install a`",
    };

    fn sites(directories: Vec<PathBuf>) -> impl FnMut() -> Box<dyn Iterator<Item = PathBuf>> {
        move || Box::new(directories.clone().into_iter())
    }

    #[test]
    fn an_explicit_path_is_taken_or_refused_but_never_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("plugin.so");
        std::fs::write(&file, "").unwrap();
        std::fs::create_dir(directory.path().join("a")).unwrap();
        std::fs::write(directory.path().join("a/a.so"), "").unwrap();
        let mut sites = sites(vec![directory.path().to_owned()]);
        assert_eq!(SEARCH.find_in(Some(file.clone().into()), &mut sites).unwrap(), file);
        let error = SEARCH.find_in(Some("/nowhere/plugin.so".into()), &mut sites).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no PJRT plugin for cpu: looked at /nowhere/plugin.so; TPUD_CPU_PLUGIN must name the plugin's library"
        );
    }

    #[test]
    fn the_better_plugin_and_the_earlier_environment_win() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (directory, name) in [(&first, "b"), (&second, "a"), (&second, "b")] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
            std::fs::write(directory.path().join(name).join(format!("{name}.so")), "").unwrap();
        }
        let find = |directories| SEARCH.find_in(None, &mut sites(directories)).unwrap();
        let (first, second) = (first.path().to_owned(), second.path().to_owned());
        assert_eq!(find(vec![first.clone(), second.clone()]), first.join("b/b.so"));
        assert_eq!(find(vec![second.clone(), first]), second.join("a/a.so"));
    }

    #[test]
    fn a_missing_plugin_says_where_it_was_looked_for_and_what_to_install() {
        let error = SEARCH.find_in(None, &mut sites(vec!["/site".into()])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no PJRT plugin for cpu: looked at /site/a/a.so, /site/b/b.so; `pip install a`, or set TPUD_CPU_PLUGIN \
             to the plugin's library"
        );
    }
}
