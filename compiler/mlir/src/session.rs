//! One MLIR context, with its diagnostics collected instead of printed on stderr.

use std::cell::RefCell;
use std::rc::Rc;

use melior::Context;
use melior::dialect::DialectHandle;

/// What one call works in.
pub(crate) struct Session {
    context: Context,
    diagnostics: Rc<RefCell<Vec<String>>>,
}

impl Session {
    /// A context that knows `func` and `builtin`, and takes ops and attributes of any other dialect as they are.
    pub(crate) fn new() -> Self {
        let context = Context::new();
        context.enable_multi_threading(false);
        context.set_allow_unregistered_dialects(true);
        DialectHandle::func().load_dialect(&context);
        let diagnostics = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&diagnostics);
        context.attach_diagnostic_handler(move |diagnostic| {
            // A panic must not unwind into C++, so a cell in use drops the message.
            if let Ok(mut messages) = sink.try_borrow_mut() {
                messages.push(diagnostic.to_string());
            }
            true
        });
        Self { context, diagnostics }
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// What MLIR has said since the last call.
    pub(crate) fn take_diagnostics(&self) -> String {
        let messages = std::mem::take(&mut *self.diagnostics.borrow_mut());
        if messages.is_empty() { "no diagnostic".to_owned() } else { messages.join("; ") }
    }
}
