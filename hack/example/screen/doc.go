// Package screen prints the progress of the commands in hack/ and the logs of operators.
package screen
