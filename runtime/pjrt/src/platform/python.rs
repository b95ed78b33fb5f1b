//! Where Python packages are installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Package directories, best first: of `TPUD_PYTHON`, else of `VIRTUAL_ENV` and then of the `python3` on the path.
pub(super) fn site_packages() -> Box<dyn Iterator<Item = PathBuf>> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(python) = variable("TPUD_PYTHON") {
        return Box::new(of_interpreter(python));
    }
    let environment = variable("VIRTUAL_ENV").into_iter().flat_map(|prefix| of_prefix(&prefix));
    let on_path = ["python3", "python"].into_iter().filter_map(find_on_path).take(1);
    Box::new(environment.chain(on_path.flat_map(of_interpreter)))
}

/// Reads the layout of the interpreter's prefix first, because asking the interpreter takes tens of milliseconds.
fn of_interpreter(python: PathBuf) -> impl Iterator<Item = PathBuf> {
    // Not canonical: in a virtual environment the interpreter is a link, and the prefix is where the link is.
    let prefix = python.parent().and_then(Path::parent).map(Path::to_owned);
    let by_layout = prefix.into_iter().flat_map(|prefix| of_prefix(&prefix));
    by_layout.chain(std::iter::once_with(move || ask(&python)).flatten())
}

/// `<prefix>/lib/python3.*/{site,dist}-packages`.
fn of_prefix(prefix: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(prefix.join("lib")) else { return Vec::new() };
    let mut versions: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3")))
        .collect();
    versions.sort();
    let packages = versions.iter().flat_map(|path| [path.join("site-packages"), path.join("dist-packages")]);
    packages.filter(|path| path.is_dir()).collect()
}

/// The interpreter's own search path: user sites, `PYTHONPATH` and distributions' ideas of a layout.
fn ask(python: &Path) -> Vec<PathBuf> {
    let output = Command::new(python)
        .args(["-c", "import sys; print('\\n'.join(path for path in sys.path if path))"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let Ok(output) = output else { return Vec::new() };
    String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).filter(|path| path.is_dir()).collect()
}

fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_lists_its_package_directories_in_order() {
        let prefix = tempfile::tempdir().unwrap();
        for directory in ["lib/python3.12/site-packages", "lib/python3.11/dist-packages", "lib/other"] {
            std::fs::create_dir_all(prefix.path().join(directory)).unwrap();
        }
        let found = of_prefix(prefix.path());
        let expected = ["lib/python3.11/dist-packages", "lib/python3.12/site-packages"];
        assert_eq!(found, expected.map(|directory| prefix.path().join(directory)));
        assert!(of_prefix(Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn a_missing_interpreter_has_no_packages() {
        assert!(ask(Path::new("/nowhere/python3")).is_empty());
    }
}
