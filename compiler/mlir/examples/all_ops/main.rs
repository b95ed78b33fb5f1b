//! Writes a small module for every op that tpud-stablehlo builds, as text and as bytecode: `all_ops OUTDIR`.
//! `tests/verify` reads them with the real StableHLO dialect.

mod cases;

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let (Some(dir), None) = (args.next().map(PathBuf::from), args.next()) else {
        return Err("usage: all_ops OUTDIR".into());
    };
    std::fs::create_dir_all(&dir)?;
    for case in cases::all()? {
        std::fs::write(dir.join(format!("{}.mlir", case.name)), case.module.to_string())?;
        std::fs::write(dir.join(format!("{}.mlirbc", case.name)), tpud_mlir::to_bytecode(&case.module)?)?;
    }
    Ok(())
}
