// Package promotion prevents starvation in the priority queue of a controller: the objects of the first listing are handled, although changes by users
// have a higher priority.
package promotion
