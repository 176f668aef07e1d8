// Package fencing delays the writes of a process that was suspended, for example by SIGSTOP, by a paused virtual machine, or by a sleeping laptop.
//
// A suspended leader cannot renew its lease, so another process takes over. When the leader resumes, some of its goroutines run before its
// leader elector detects the loss of the lease. A [Fence] records a heartbeat and compares it with the clock at each query, so the first
// goroutine that queries the fence detects the suspension. The fence then stays active for [Options].HoldTime. In this time, the leader elector
// either renews the lease or stops the manager.
//
// The fence is also active while the Lease of a shard is overdue, see [Options].Overdue.
package fencing
