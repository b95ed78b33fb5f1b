//! Who a plugin is: its name and version for people, its content for cache keys.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// A plugin's identity. Two plugins with the same [`PluginIdentity::key`] generate the same code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PluginIdentity {
    /// Python distribution and version, e.g. "libtpu 0.0.52", else the file's name.
    pub name: String,
    /// Major and minor version of its API.
    pub api_version: (i32, i32),
    /// "build-id:…" (the linker's hash of the content) or "sha256:…" of the file.
    pub content: String,
}

impl PluginIdentity {
    pub(crate) fn of(path: &Path, api_version: (i32, i32)) -> Result<Self> {
        let content = content(path)
            .map_err(|error| Error::Unreadable { path: path.to_owned(), message: error.to_string() })?;
        Ok(Self { name: distribution(path).unwrap_or_else(|| file_name(path)), api_version, content })
    }

    /// Everything in one line: a component of cache keys.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{self}, {}", self.content)
    }
}

impl fmt::Display for PluginIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (PJRT API {}.{})", self.name, self.api_version.0, self.api_version.1)
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// "name version" of the Python distribution that the file was installed by.
fn distribution(path: &Path) -> Option<String> {
    let site = path
        .ancestors()
        .find(|parent| parent.ends_with("site-packages") || parent.ends_with("dist-packages"))?;
    let relative = path.strip_prefix(site).ok()?;
    let components: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
    let mut names: Vec<String> = fs::read_dir(site)
        .ok()?
        .filter_map(|entry| {
            Some(entry.ok()?.file_name().to_string_lossy().strip_suffix(".dist-info")?.to_owned())
        })
        .collect();
    names.sort();
    names.iter().find_map(|name| {
        let (package, version) = name.rsplit_once('-')?;
        components
            .iter()
            .any(|part| part == package)
            .then(|| format!("{} {version}", package.replace('_', "-")))
    })
}

fn content(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    if let Some(id) = build_id(&mut file)? {
        return Ok(format!("build-id:{id}"));
    }
    Ok(format!("sha256:{}", cached_digest(path, &file)?))
}

/// The GNU build id of a 64-bit little-endian ELF file, if it has one.
fn build_id(file: &mut File) -> io::Result<Option<String>> {
    const NOTE_SEGMENT: u32 = 4;
    const LARGEST_NOTE: u64 = 1 << 16;
    let mut header = [0_u8; 64];
    if file.read_exact(&mut header).is_err() || header[..6] != *b"\x7fELF\x02\x01" {
        return Ok(None);
    }
    let start = number(&header, 32, 8);
    let (entry_bytes, entries) = (number(&header, 54, 2), number(&header, 56, 2));
    for index in 0..entries {
        let mut entry = [0_u8; 56];
        file.seek(SeekFrom::Start(start + index * entry_bytes))?;
        file.read_exact(&mut entry)?;
        let (offset, length) = (number(&entry, 8, 8), number(&entry, 32, 8));
        if number(&entry, 0, 4) as u32 != NOTE_SEGMENT || length > LARGEST_NOTE {
            continue;
        }
        let mut notes = vec![0_u8; length as usize];
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(&mut notes)?;
        if let Some(id) = build_id_note(&notes) {
            return Ok(Some(hex(id)));
        }
    }
    Ok(None)
}

/// Walks notes: name length, content length, type, then name and content, each padded to 4 bytes.
fn build_id_note(mut notes: &[u8]) -> Option<&[u8]> {
    const BUILD_ID: u64 = 3;
    while notes.len() >= 12 {
        let (name_length, length) = (number(notes, 0, 4) as usize, number(notes, 4, 4) as usize);
        let content_start = 12 + name_length.next_multiple_of(4);
        let name = notes.get(12..12 + name_length)?;
        let content = notes.get(content_start..content_start + length)?;
        if name == b"GNU\0" && number(notes, 8, 4) == BUILD_ID {
            return Some(content);
        }
        notes = notes.get(content_start + length.next_multiple_of(4)..)?;
    }
    None
}

/// A little-endian number; zero beyond the end.
fn number(bytes: &[u8], offset: usize, length: usize) -> u64 {
    let field = bytes.get(offset..offset + length).unwrap_or_default();
    field.iter().rev().fold(0, |value, &byte| (value << 8) | u64::from(byte))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hashing 250 MB takes a fraction of a second, so the digest is remembered under what changes when a file does.
fn cached_digest(path: &Path, file: &File) -> io::Result<String> {
    let meta = file.metadata()?;
    let stamp = format!(
        "{}\n{}\n{}\n{}.{}\n{}",
        path.display(),
        meta.len(),
        meta.ino(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime_nsec()
    );
    let memo = memo_directory().map(|directory| directory.join(hex(&Sha256::digest(stamp.as_bytes()))));
    if let Some(digest) = memo.as_deref().and_then(read_memo) {
        return Ok(digest);
    }
    let mut hasher = Sha256::new();
    let mut reader = File::open(path)?;
    io::copy(&mut reader, &mut hasher)?;
    let digest = hex(&hasher.finalize());
    if let Some(memo) = memo {
        // Not being able to remember costs time, nothing else.
        let _ = write_memo(&memo, &digest);
    }
    Ok(digest)
}

fn memo_directory() -> Option<PathBuf> {
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(directory) => PathBuf::from(directory),
        None => PathBuf::from(std::env::var_os("HOME").filter(|value| !value.is_empty())?).join(".cache"),
    };
    Some(cache.join("tpud").join("plugin-digests"))
}

fn read_memo(memo: &Path) -> Option<String> {
    let digest = fs::read_to_string(memo).ok()?;
    (digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(digest)
}

fn write_memo(memo: &Path, digest: &str) -> io::Result<()> {
    if let Some(directory) = memo.parent() {
        fs::create_dir_all(directory)?;
    }
    let temporary = memo.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&temporary, digest)?;
    fs::rename(&temporary, memo)
}
