//! The plugin as a whole.

use crate::*;

args! {
    /// Arguments of `PJRT_Plugin_Initialize`.
    PJRT_Plugin_Initialize_Args {
    }

    /// Arguments of `PJRT_Plugin_Attributes`.
    PJRT_Plugin_Attributes_Args {
        attributes: *const PJRT_NamedValue,
        num_attributes: usize,
    }
}
