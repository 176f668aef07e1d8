// Package promotion prevents starvation in the priority queue of a controller. Without it, the objects of the first listing could wait forever, because
// changes by users have a higher priority.
package promotion
