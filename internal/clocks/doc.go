// Package clocks measures times that include suspensions of the machine.
package clocks
