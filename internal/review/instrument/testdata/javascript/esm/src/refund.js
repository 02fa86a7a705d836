export async function refund(job) {
  return `refunded ${job.data}`
}
