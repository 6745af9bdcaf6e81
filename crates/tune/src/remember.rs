//! What was measured once, kept: set again at each start, and undone when asked.
//!
//! In:    a device, what was found, what to set and what was set before; the date.
//! Out:   a udev rule for this one device, and a record from which it can be undone.
//! Never: a rule without a record, half a file, or a rule that could match another device.
