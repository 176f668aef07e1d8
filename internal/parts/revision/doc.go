// Package revision reads and writes with which revisions of its handlers an object was handled.
//
// This note is the annotation <prefix>/revision. It counts only for the object with its uid, and as long as the object has the last-handled
// configuration with its digest. So a copy of the object, and an object that another operator has handled since, count as not handled.
package revision
