// Package promotion prevents starvation in a controller's priority queue. Without it, objects from the first listing could wait forever,
// because users' changes have a higher priority.
package promotion
