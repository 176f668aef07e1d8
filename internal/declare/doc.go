// Package declare checks what a program declares, before anything runs: it has neither a context nor a client.
package declare
