// Package suspension delays the writes of a process that was suspended: by SIGSTOP, because its virtual machine was paused, or because the
// laptop slept.
//
// A suspended leader can't renew its lease, so a different process takes over. When the leader resumes, some of its goroutines run before
// its leader elector notices that the lease is lost. A [Fence] records a heartbeat and compares it with the clock whenever it is asked, so
// even the first goroutine to ask detects the suspension. The fence then stays active for [Options].HoldTime, in which the leader elector
// either renews the lease or stops the manager.
//
// The fence is also active while the Lease of a shard is overdue, see [Options].Overdue.
package suspension
