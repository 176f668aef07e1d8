// Package declare checks a program's declarations before anything runs, so it needs neither a context nor a client.
package declare
