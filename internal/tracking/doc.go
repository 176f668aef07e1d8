// Package tracking triggers reconcile handlers when objects change that the handlers have read with Track.
package tracking
