// Package fencing holds the work of a process that was suspended: by SIGSTOP, a paused virtual machine or a sleeping laptop.
//
// A leader that does not run cannot renew its lease, and another process takes over. When the leader runs again, some of its
// goroutines run before its leader elector finds out. A [Fence] records a heartbeat and compares it with the time at each
// query. It does not matter which goroutine queries first: the first one finds the gap. The fence then holds until the
// leader elector has either renewed the lease or stopped the manager.
package fencing
