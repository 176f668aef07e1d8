// Package probes serves the values of probes, which are functions of the user.
package probes
