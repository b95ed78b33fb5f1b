//! Keys: SHA-256 over a named list of components that stays visible beside the digest.
use std::{fmt, str::FromStr};

use crate::{
    KeyError,
    fingerprint::{self, Digest},
};

/// Texts up to this length are kept readable in a [`Component`].
const READABLE_BYTES: usize = 200;

/// A cache key: 32 bytes, printed as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Digest);

impl Key {
    /// The key with these bytes.
    pub const fn from_bytes(bytes: Digest) -> Self {
        Key(bytes)
    }

    /// The key's bytes.
    pub const fn as_bytes(&self) -> &Digest {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&fingerprint::hex(&self.0))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

impl FromStr for Key {
    type Err = KeyError;

    /// Accepts exactly 64 hexadecimal digits, so no path can hide in a key.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let malformed = || KeyError::Malformed { text: text.chars().take(80).collect() };
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(malformed());
        }
        let mut bytes = [0u8; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let nibble = |digit: u8| (digit as char).to_digit(16);
            let (Some(high), Some(low)) = (nibble(pair[0]), nibble(pair[1])) else { return Err(malformed()) };
            *byte = (high << 4 | low) as u8;
        }
        Ok(Key(bytes))
    }
}

/// What a key stands for. Part of the key: a graph and a module never share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A graph with its specialisation; its entry names a module key.
    Graph,
    /// A lowered module; its entry holds an executable.
    Module,
}

impl Kind {
    /// The name under which people meet it: `graph` or `module`.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Graph => "graph",
            Kind::Module => "module",
        }
    }
}

/// One named part of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// What it is: `graph`, `precision`, …
    pub name: String,
    /// The content, when it is short and printable.
    pub value: Option<String>,
    /// SHA-256 of the content.
    pub digest: Digest,
}

/// A key with everything it was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyMaterial {
    kind: Kind,
    components: Vec<Component>,
    key: Key,
}

impl KeyMaterial {
    /// Derives the key of a list of components.
    pub(crate) fn new(kind: Kind, components: Vec<Component>) -> Self {
        let domain = [b"tpud key 1".as_slice(), kind.name().as_bytes()];
        let parts = components.iter().flat_map(|c| [c.name.as_bytes(), c.digest.as_slice()]);
        let key = Key(fingerprint::digest_list(domain.into_iter().chain(parts)));
        KeyMaterial { kind, components, key }
    }

    /// The key.
    pub const fn key(&self) -> Key {
        self.key
    }

    /// What the key stands for.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The components, in their fixed order.
    pub fn components(&self) -> &[Component] {
        &self.components
    }
}

/// Collects components in the order in which they are added; the order is part of the key.
#[derive(Debug)]
pub struct KeyBuilder {
    kind: Kind,
    components: Vec<Component>,
}

impl KeyBuilder {
    /// An empty list for a key of this kind.
    pub const fn new(kind: Kind) -> Self {
        KeyBuilder { kind, components: Vec::new() }
    }

    /// Adds a component that only its digest represents.
    #[must_use]
    pub fn bytes(self, name: &str, content: &[u8]) -> Self {
        self.push(name, None, fingerprint::digest(content))
    }

    /// Adds a text, which stays readable when it is short.
    #[must_use]
    pub fn text(self, name: &str, content: &str) -> Self {
        self.push(name, Some(content.to_owned()), fingerprint::digest(content.as_bytes()))
    }

    /// Adds a set of named values. The order in which they come doesn't matter.
    #[must_use]
    pub fn pairs<'a>(self, name: &str, pairs: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort();
        let parts = pairs.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        let digest = fingerprint::digest_list(parts);
        let text: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.push(name, Some(text.join(",")), digest)
    }

    /// The key and its material.
    pub fn finish(self) -> KeyMaterial {
        KeyMaterial::new(self.kind, self.components)
    }

    fn push(mut self, name: &str, value: Option<String>, digest: Digest) -> Self {
        let value = value.filter(|v| v.len() <= READABLE_BYTES && !v.chars().any(char::is_control));
        self.components.push(Component { name: name.to_owned(), value, digest });
        self
    }
}

/// What an executable is built for; part of both keys.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// `cpu`, `tpu`, …
    pub platform: &'a str,
    /// `v6e:2x2`; empty where the platform has none.
    pub topology: &'a str,
    /// PJRT's model string; on CPUs the instruction set, since executables hold host code.
    pub device_kind: &'a str,
    /// The plugin's identity: name, version and build (for libtpu its build label), such that two plugins which may
    /// compile differently never have the same one.
    pub plugin: &'a str,
}

impl Target<'_> {
    fn add_to(self, builder: KeyBuilder) -> KeyBuilder {
        builder
            .text("platform", self.platform)
            .text("topology", self.topology)
            .text("device_kind", self.device_kind)
            .text("plugin", self.plugin)
    }
}

/// Exactly what a graph key is made from. A field that is missing here is a wrong executable some day, so there is no
/// default: a new field makes every caller say its value.
#[derive(Debug, Clone, Copy)]
pub struct GraphKeyParts<'a> {
    /// The graph's canonical bytes (no source lines, no host or user): ops, constants, donation and aliasing, bounds.
    pub graph: &'a [u8],
    /// The chosen size of every symbol; empty for a static graph.
    pub bucket: &'a [(&'a str, u64)],
    /// How values outside the logical region are treated, e.g. `none`, `mask`, `poison`.
    pub padding: &'a str,
    /// Matmul precision of f32: `highest`, `high` or `medium`.
    pub precision: &'a str,
    /// Whether a CPU computes f32 matrix products as a TPU of that precision would.
    pub emulation: bool,
    /// Whether the executable reports what eager PyTorch raises on.
    pub checks: bool,
    /// XLA flags, each with its value *and type* written out (`bool:true`), so that `true` and `"true"` differ.
    pub xla_flags: &'a [(&'a str, String)],
    /// Version of tpud's lowering: changes whenever the same graph may lower to another module.
    pub lowering: &'a str,
    /// What it is compiled for, by which plugin.
    pub target: Target<'a>,
}

impl GraphKeyParts<'_> {
    /// The graph key with its material.
    pub fn material(&self) -> KeyMaterial {
        let builder = KeyBuilder::new(Kind::Graph)
            .bytes("graph", self.graph)
            .pairs("bucket", self.bucket.iter().map(|(symbol, size)| (*symbol, size.to_string())))
            .text("padding", self.padding)
            .text("precision", self.precision)
            .text("emulation", if self.emulation { "on" } else { "off" })
            .text("checks", if self.checks { "on" } else { "off" })
            .pairs("xla_flags", self.xla_flags.iter().map(|(name, value)| (*name, value.clone())))
            .text("lowering", self.lowering);
        self.target.add_to(builder).finish()
    }
}

/// Exactly what a module key is made from. Different graphs that lower to one module share its entry.
#[derive(Debug, Clone, Copy)]
pub struct ModuleKeyParts<'a> {
    /// The module's bytes, as the compiler gets them.
    pub module: &'a [u8],
    /// The compile options, as the compiler gets them (precision and XLA flags are in here or in the module).
    pub compile_options: &'a [u8],
    /// What it is compiled for, by which plugin.
    pub target: Target<'a>,
}

impl ModuleKeyParts<'_> {
    /// The module key with its material.
    pub fn material(&self) -> KeyMaterial {
        let builder = KeyBuilder::new(Kind::Module)
            .bytes("module", self.module)
            .bytes("compile_options", self.compile_options);
        self.target.add_to(builder).finish()
    }
}

/// Names of the components in which two lists differ: `a`'s order first, then what only `b` has.
pub fn differing(a: &[Component], b: &[Component]) -> Vec<String> {
    let same =
        |x: &Component, list: &[Component]| list.iter().any(|y| x.name == y.name && x.digest == y.digest);
    let named = |name: &str, list: &[Component]| list.iter().any(|y| y.name == name);
    let changed = a.iter().filter(|component| !same(component, b));
    let added = b.iter().filter(|component| !named(&component.name, a));
    changed.chain(added).map(|component| component.name.clone()).collect()
}

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
