// Package probes serves the values of probes, which are user functions.
package probes
