// Package bench measures the library.
package bench
