 When all keys are there, send the folder to every node as `peers`, but not
   through the server.
