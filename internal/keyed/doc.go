// Package keyed has a map for data that only a few objects have at a time.
package keyed
