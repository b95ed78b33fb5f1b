//! What the tests of this crate share: one CPU client a process, and tensors as plain vectors.

#![allow(dead_code)] // every test binary uses its own part

use std::sync::OnceLock;

use tpud_pjrt::{
    AlignedBytes, Buffer, Client, CompileOptions, Device, ElementType, LoadedExecutable, Program, TensorType,
    platform,
};

/// The CPU client. A missing plugin is a failure, never a skip; `cargo test` sets TPUD_PYTHON to the repository's
/// `.venv` (`.cargo/config.toml`).
pub(crate) fn client() -> &'static Client {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    CLIENT.get_or_init(new_client)
}

pub(crate) fn new_client() -> Client {
    let plugin = platform::cpu::load().unwrap_or_else(|error| panic!("{error}"));
    platform::cpu::create_client(&plugin, 1).unwrap()
}

pub(crate) fn device() -> Device {
    client().first_device().unwrap()
}

pub(crate) fn compile(module: &str) -> LoadedExecutable {
    client().compile(&Program::mlir(module.as_bytes()), &CompileOptions::default()).unwrap()
}

/// Bytes of a slice of plain numbers.
pub(crate) trait Plain: Copy {
    fn append(self, bytes: &mut Vec<u8>);
    fn take(bytes: &[u8]) -> Self;
}

macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Plain for $type {
            fn append(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }
            fn take(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().unwrap())
            }
        }
    )*};
}
plain!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, half::f16, half::bf16);

pub(crate) fn to_bytes<T: Plain>(values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &value in values {
        value.append(&mut bytes);
    }
    bytes
}

pub(crate) fn from_bytes<T: Plain>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(T::take).collect()
}

pub(crate) fn upload<T: Plain>(kind: ElementType, dims: &[i64], values: &[T]) -> Buffer {
    Buffer::copy_from_host(&device(), TensorType::new(kind, dims), &to_bytes(values)).unwrap()
}

pub(crate) fn upload_owned<T: Plain>(kind: ElementType, dims: &[i64], values: &[T]) -> Buffer {
    let data = AlignedBytes::copy_of(&to_bytes(values)).unwrap();
    Buffer::from_host(&device(), TensorType::new(kind, dims), data).unwrap()
}

pub(crate) fn read<T: Plain>(buffer: &Buffer) -> Vec<T> {
    from_bytes(&buffer.to_vec().unwrap())
}

/// `%a + %b` on tensors of a StableHLO type such as "2x3xf32".
pub(crate) fn add_module(kind: &str) -> String {
    format!(
        "func.func @main(%a: tensor<{kind}>, %b: tensor<{kind}>) -> tensor<{kind}> {{
          %0 = stablehlo.add %a, %b : tensor<{kind}>
          return %0 : tensor<{kind}>
        }}"
    )
}

/// Runs the calling test in a process of its own, with these variables, unless this is that process already. Answers
/// the child's outcome to the parent and nothing to the child, which goes on with the test's body.
pub(crate) fn in_child(test: &str, variables: &[(&str, &str)]) -> Option<std::process::Output> {
    const MARK: &str = "TPUD_TEST_CHILD";
    if std::env::var_os(MARK).is_some() {
        return None;
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(MARK, "1")
        .envs(variables.iter().copied());
    Some(command.output().unwrap())
}

/// The child must have passed; its output is shown when it has not.
pub(crate) fn assert_passed(output: &std::process::Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("1 passed"), "{}", text(&output.stdout));
}
