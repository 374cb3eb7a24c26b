//! Asynchronous errors of drivers, stored until they can be reported.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::lock;
use crate::error::{Error, Result};

/// The first unreported error of a device. Errors may arrive on any thread at any time.
#[derive(Default)]
pub struct Fault {
    raised: AtomicBool,
    lost: AtomicBool,
    message: Mutex<Option<String>>,
}

impl Fault {
    /// Records an error; only the first is kept, since later ones usually follow from it.
    pub fn raise(&self, message: String) {
        lock(&self.message).get_or_insert(message);
        self.raised.store(true, Ordering::Release);
    }

    /// Records that the device is lost; the first reason is kept.
    pub fn lose(&self, message: String) {
        let mut kept = lock(&self.message);
        if !self.lost.swap(true, Ordering::AcqRel) {
            *kept = Some(message);
        }
        self.raised.store(true, Ordering::Release);
    }

    /// The reason why the device is lost, if it is.
    pub fn lost(&self) -> Option<String> {
        if self.lost.load(Ordering::Acquire) { lock(&self.message).clone() } else { None }
    }

    /// Returns the stored error and clears it; the error of a lost device stays.
    pub fn check(&self, operations: &[&'static str]) -> Result<()> {
        if !self.raised.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut message = lock(&self.message);
        let lost = self.lost.load(Ordering::Acquire);
        let text = if lost { message.clone() } else { message.take() };
        self.raised.store(lost, Ordering::Release);
        let during = if operations.is_empty() {
            String::new()
        } else {
            format!(" (operations of the batch: {})", operations.join(", "))
        };
        match text {
            Some(text) => Err(Error::Runtime(format!("GPU error: {text}{during}"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_once_and_a_lost_device_always() {
        let fault = Fault::default();
        assert!(fault.check(&[]).is_ok());
        fault.raise("first".into());
        fault.raise("second".into());
        let told = fault.check(&["add", "mul"]).unwrap_err().to_string();
        assert_eq!(told, "GPU error: first (operations of the batch: add, mul)");
        assert!(fault.check(&[]).is_ok());
        fault.lose("gone".into());
        fault.lose("gone again".into());
        assert!(fault.check(&[]).is_err() && fault.check(&[]).is_err());
        assert_eq!(fault.lost().as_deref(), Some("gone"));
    }
}
