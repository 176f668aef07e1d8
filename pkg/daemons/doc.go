// Package daemons runs daemons and timers.
package daemons
